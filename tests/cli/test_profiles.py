"""Profiles: catalogs with a name, where they are looked for, and what comes before them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ended
from tiltyard.cli import main


class Workspace:
    """A person's home and a project below it, and the command run in the project."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = base / "home"
        self.project = self.home / "work" / "project"
        self.project.mkdir(parents=True)
        self._capsys = capsys

    def of_project(self, text: str) -> None:
        (self.home / "work" / "tiltyard.toml").write_text(text)

    def of_user(self, text: str) -> None:
        file = self.home / ".config" / "tiltyard" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *arguments: str) -> Ended:
        self._capsys.readouterr()
        status = main(list(arguments))
        printed = self._capsys.readouterr()
        return Ended(status, printed.out, printed.err)

    def shown(self, *arguments: str) -> dict[str, tuple[str, str]]:
        """Every property with its value and where it was set."""
        ended = self.run("config", "show", "-o", "json", *arguments)
        assert ended.status == 0, ended.err
        return {row["property"]: (row["value"], row["from"]) for row in json.loads(ended.out)}


@pytest.fixture
def workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Workspace:
    workspace = Workspace(tmp_path, capsys)
    monkeypatch.chdir(workspace.project)
    monkeypatch.setenv("HOME", str(workspace.home))
    for variable in ("TILTYARD_ROOT", "TILTYARD_PROFILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return workspace


PROD = """
[profiles.prod]
root = "lake"
mode = "manifest"
max_staleness = 2
vend_input_storage_options = true
storage.region = "eu-west-1"
storage.secret_access_key = "hunter22"
"""


def test_a_profile_of_the_project_names_a_catalog(workspace: Workspace) -> None:
    workspace.of_project(PROD)
    shown = workspace.shown("--profile", "prod")
    source = "profile prod in ~/work/tiltyard.toml"
    assert shown["root"] == (str(workspace.home / "work" / "lake"), source), (
        "from the file's directory"
    )
    assert shown["dir_listing_enabled"] == ("false", source)
    assert shown["vend_input_storage_options"] == ("true", source)
    assert shown["storage.region"] == ("eu-west-1", source)
    assert shown["storage.secret_access_key"] == ("***", source)
    assert shown["default_ttl"][1] == "default"


def test_a_profile_may_be_named_by_the_environment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.of_project(PROD)
    monkeypatch.setenv("TILTYARD_PROFILE", "prod")
    assert workspace.shown()["storage.region"][0] == "eu-west-1"


def test_the_project_comes_before_the_user(workspace: Workspace) -> None:
    workspace.of_user('[profiles.prod]\nroot = "mine"\n[profiles.home]\nroot = "~/own"\n')
    workspace.of_project('[profiles.prod]\nroot = "ours"\n')
    assert workspace.shown("--profile", "prod")["root"][0].endswith("work/ours")
    assert workspace.shown("--profile", "home")["root"][0] == str(workspace.home / "own")


def test_without_a_root_the_default_profile_counts(workspace: Workspace) -> None:
    workspace.of_user('[profiles.default]\nroot = "s3://b/lake"\nactor = "ada"\n')
    shown = workspace.shown()
    assert (shown["root"][0], shown["actor"][0]) == ("s3://b/lake", "ada")


def test_the_default_profile_keeps_out_of_other_catalogs(workspace: Workspace) -> None:
    workspace.of_user('[profiles.default]\nroot = "s3://b/lake"\nactor = "ada"\n')
    shown = workspace.shown("--root", "elsewhere")
    assert shown["root"] == (str(workspace.project / "elsewhere"), "--root")
    assert shown["actor"][0] != "ada"


def test_the_command_line_comes_before_a_profile_and_a_profile_before_the_default(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.of_project(PROD)
    monkeypatch.setenv("TILTYARD_ROOT", "of-the-environment")
    assert workspace.shown()["root"][1] == "TILTYARD_ROOT"
    assert workspace.shown("--profile", "prod")["root"][0].endswith("work/lake")
    shown = workspace.shown("--profile", "prod", "--root", "mine", "-p", "max_staleness=9")
    assert shown["root"][1] == "--root"
    assert shown["max_staleness"] == ("9.0", "-p")
    assert shown["storage.region"][0] == "eu-west-1"
    monkeypatch.setenv("TILTYARD_PROFILE", "prod")
    assert workspace.shown()["root"][1] == "TILTYARD_ROOT", "the more exact of two variables"


@pytest.mark.parametrize(
    ("text", "arguments", "message", "hint"),
    [
        (PROD, ["--profile", "prd"], "no profile 'prd'", "did you mean 'prod'?"),
        (PROD, ["--profile", "zzz"], "no profile 'zzz'", "there are: prod"),
        ("", ["--profile", "prod"], "no profile 'prod'", "tiltyard.toml"),
        ("", [], "no catalog was named", "TILTYARD_ROOT"),
        ("[profiles\n", ["--profile", "prod"], "~/work/tiltyard.toml can't be read", None),
        ('profiles = "x"', ["--profile", "prod"], "must hold sections", "[profiles.NAME]"),
        ('[profiles.x]\nroot = ["a"]', ["--profile", "x"], "'root' of profile x", None),
        ('[profiles.x]\nroot = "a"\nmode = "v2"', ["--profile", "x"], "'v2'", "manifest"),
        ('[profiles.x]\nrot = "a"', ["--profile", "x", "--root", "b"], "'rot'", "'root'?"),
        ('[profiles.x]\nactor = "a"', ["--profile", "x"], "no catalog was named", "--root"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused_in_two_lines(
    workspace: Workspace, text: str, arguments: list[str], message: str, hint: str | None
) -> None:
    workspace.of_project(text)
    refused = workspace.run("table", "list", *arguments)
    first, *rest = refused.err.splitlines()
    assert (refused.status, refused.out) == (2, "")
    assert message in first
    assert len(rest) <= 1
    assert hint is None or hint in rest[0]
