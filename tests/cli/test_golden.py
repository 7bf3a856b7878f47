"""What every verb prints, to people and as JSON, line by line.

`TILTYARD_GOLDEN=write` in the environment writes the files anew: read the difference, then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scenes import BY_SPARK, NOT_SHOWN, SCENES, Scene, build, copied, run, steady
from tests.cli.verbs import verbs

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    here, before = tmp_path_factory.mktemp("template"), Path.cwd()
    build(here)
    yield here
    os.chdir(before)


@pytest.mark.parametrize("verb", SCENES)
def test_a_verb_prints_what_it_printed_before(
    template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    compare(verb, SCENES[verb], template, tmp_path, capfd)


def compare(
    verb: str, scene: Scene, template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Run a verb for people and for programs, each on a catalog of its own."""
    shown = []
    for format in ("table", "json"):
        here = tmp_path / format
        copied(template, here)
        for line in scene.before.splitlines():
            assert run(line) == 0, line
        capfd.readouterr()
        line = f"{verb} {scene.arguments}".strip()
        status = run(line, "-o", format)
        printed = capfd.readouterr()
        if format == "json":
            json.loads(printed.out)
        said = "".join(f"! {each}\n" for each in printed.err.splitlines())
        shown.append(f"$ tiltyard {line} -o {format}\n{steady(printed.out + said, here)}\n")
        assert status == 0, printed.err
    _check(GOLDEN / f"{verb.replace(' ', '-')}.txt", "\n".join(shown))


def _check(path: Path, text: str) -> None:
    if os.environ.get("TILTYARD_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_every_verb_has_its_golden_output_or_it_is_told_why_not() -> None:
    assert sorted([*SCENES, *BY_SPARK, *NOT_SHOWN]) == sorted(verbs())
    kept = {path.stem for path in GOLDEN.glob("*.txt")}
    assert kept == {verb.replace(" ", "-") for verb in (*SCENES, *BY_SPARK)}
