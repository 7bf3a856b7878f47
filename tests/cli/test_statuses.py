"""Exit statuses of every verb for what is not there, was dropped, or is in the way.

A refusal changes nothing, so all of them are tried on one catalog.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.verbs import verbs
from tiltyard.cli import main

# What is done to a table. {} is its name; the rest is what the verb needs besides.
TO_A_TABLE = """
table describe {}
table versions {}
table count {}
table head {}
table query {}
table indexes {}
table tags {}
table tag {} spring
table untag {} spring
table branches {}
table restore {} 1
table drop {}
table rename {} new
table deregister {}
table exists {}
table protect {}
table unprotect {}
table hide-version {} 1
table show-version {} 1
optimize {}
cleanup {}
cleanup {} --apply --yes
repair {}
repair {} --apply --yes
orphans {}
jobs optimize {}
jobs cleanup {} --apply --yes
jobs index {} sku
jobs export files {}
jobs inventory {}
"""
TO_A_DROPPED_TABLE = """
table undrop {}
table status {}
table hold {}
table release {}
trash restore {}
trash purge {}
trash purge {} --apply --yes
"""
IN_A_NAMESPACE = """
table list {}
table create {}.new goods.csv
table declare {}.new
table rename there {}.new
table undrop gone --as {}.new
trash restore gone --as {}.new
ns list {}
ns describe {}
ns drop {}
ns create {}.below
optimize --all --in {}
cleanup --all --in {}
jobs optimize --in {}
jobs cleanup --in {} --apply --yes
jobs export files --in {}
jobs inventory --in {}
"""
CONFLICTS = """
table create there goods.csv
table declare there
table register there there.lance
table rename there shop.goods
table rename there gone
table undrop gone --as there
trash restore gone --as there
table tag there spring
ns create shop
ns drop shop
"""
OTHERS = [
    ("snapshot 999", 4),
    ("table register new lying", 2),
    ("keys revoke nobody --keys keys.toml", 4),
    ("keys add ada --role king --keys keys.toml", 2),
    ("config show --profile nowhere", 2),
    ("serve --port nonsense", 2),
    ("completion csh", 2),
    ("jobs ingest there", 2),
]
NOTHING_IS_NAMED = {
    "doctor": "looks at the whole catalog",
    "recover": "looks at the whole catalog",
    "manage": "works on the whole catalog",
    "migrate": "works on the whole catalog",
    "trash list": "lists the whole trash",
    "keys list": "lists all keys",
    "jobs orphans": "looks at the whole catalog",
    "jobs migrate": "works on the whole catalog",
    "jobs maintain": "works on the whole catalog",
    "sql": "names tables in a query that Spark reads: tests/spark/test_sql_command.py",
    "jobs purge": "asks the trash when Spark runs: tests/spark/jobs/test_commands.py",
}


def _lines(text: str, name: str) -> list[str]:
    return [line.format(name) for line in text.splitlines() if line]


CASES = [
    *((line, 4) for line in _lines(TO_A_TABLE + TO_A_DROPPED_TABLE, "nothing")),
    *((line, 4) for line in _lines(TO_A_TABLE, "gone")),
    *((line, 4) for line in _lines(IN_A_NAMESPACE, "nowhere")),
    *((line, 5) for line in _lines(CONFLICTS, "")),
    *OTHERS,
]
# These answer by their status, and what they print is no error.
ANSWERS = ("table exists", "table status")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables `there`, tagged, and `shop.goods`; a dropped one, `gone`."""
    here = tmp_path_factory.mktemp("statuses")
    rows = here / "goods.csv"
    rows.write_text("sku\nL-1\n")
    for line in (
        "ns create shop",
        f"table create shop.goods {rows}",
        f"table create there {rows}",
        "table tag there spring",
        f"table create gone {rows}",
        "table drop gone",
    ):
        assert main(["--root", f"{here}/lake", "-q", *shlex.split(line)]) == 0, line
    return here


@pytest.mark.parametrize(("line", "status"), CASES, ids=[line for line, _ in CASES])
def test_a_refusal_has_its_status_and_one_line(
    lake: Path,
    line: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(lake)
    monkeypatch.setenv("TILTYARD_ROOT", "lake")
    monkeypatch.setenv("NO_COLOR", "1")
    ended = main(["--no-input", *shlex.split(line)])
    printed = capsys.readouterr()
    assert ended == status, printed.err
    if not line.startswith(ANSWERS):
        first, *hint = printed.err.splitlines()
        assert (printed.out, first[:7]) == ("", "error: ")
        assert len(hint) <= 1
        assert all(each.startswith("hint:  ") for each in hint)
        assert not line.endswith(" gone") or "undrop" in hint[0]


@pytest.mark.parametrize("verb", ["optimize", "cleanup"])
def test_of_several_tables_a_missing_one_has_a_row(
    lake: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = main(["--root", f"{lake}/lake", verb, "nothing", "there", "-o", "csv"])
    printed = capsys.readouterr()
    assert ended == 3
    assert [line.partition(",")[0] for line in printed.out.splitlines()[1:]] == ["nothing", "there"]
    assert "table 'nothing' was not found" in printed.out
    assert "not found" not in printed.err


def test_every_verb_is_tried_here_or_it_is_told_why_not() -> None:
    tried = {verb for verb in verbs() for line, _ in CASES if f"{line} ".startswith(f"{verb} ")}
    assert sorted({*tried, *NOTHING_IS_NAMED}) == sorted(verbs())
    assert not tried & {*NOTHING_IS_NAMED}
