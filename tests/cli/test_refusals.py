"""Errors: one line what happened, one line what to do, and a status that scripts can use."""

from __future__ import annotations

import io
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.cli.conftest import Ended, Tiltyard
from tests.kit.buckets import S3Server
from tests.store.workers import NOBODY
from tiltyard.cli import main


@pytest.mark.parametrize(
    ("arguments", "status", "message", "hint"),
    [
        (["table", "lst"], 2, "No such command 'lst'", "tiltyard table --help"),
        (["table", "list", "--rot", "x"], 2, "--rot", "tiltyard table list --help"),
        (["table", "describe"], 2, "TABLE", "tiltyard table describe --help"),
        (["--mode", "dir", "table", "list"], 2, "directory", "--help"),
        (["-p", "manifst_enabled=false", "table", "list"], 2, "manifst", "'manifest_enabled'?"),
        (["-p", "region", "table", "list"], 2, "NAME=VALUE", None),
        (["-p", "region=eu", "table", "list"], 2, "'region'", "'storage.region'?"),
        (["-p", "manifest_enabled=true", "table", "list"], 2, "same", "leave one of"),
        (["table", "describe", "nothing"], 4, "'nothing' was not found", None),
        (["table", "head", "nothing"], 4, "'nothing' was not found", None),
        (["table", "drop", "nothing"], 4, "'nothing' was not found", None),
        (["table", "drop", "nothing", "--yes"], 4, "'nothing' was not found", None),
        (["table", "create", "products", "products.csv"], 5, "already exists", None),
        (["table", "declare", "products"], 5, "already exists", None),
        (["table", "create", "t", "no.csv"], 2, "no file no.csv", None),
        (["table", "create", "t", "products.csv", "--format", "arrow"], 2, "as arrow", "--format"),
        (["table", "create", "a$b", "products.csv"], 2, "'$'", None),
        (["table", "describe", "a..b"], 2, "is not an id", "double quotes"),
        (["table", "rename", "products", "goods"], 1, "rename", None),
        (["ns", "create", "prod"], 1, "root namespace only", "manifest_enabled"),
        (["ns", "drop", "prod"], 1, "root namespace only", "manifest_enabled"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_happened_and_what_to_do(
    products: Tiltyard, arguments: Sequence[str], status: int, message: str, hint: str | None
) -> None:
    refused = products(*arguments)
    first, *rest = refused.err.splitlines()
    assert (refused.status, refused.out) == (status, "")
    assert first.startswith("error: ")
    assert message in first
    assert len(rest) <= 1
    assert hint is None or rest[0].startswith("hint:  ")
    assert hint is None or hint in rest[0]


def test_without_a_root_the_error_says_how_to_name_one(
    tiltyard: Tiltyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILTYARD_ROOT")
    refused = tiltyard("table", "list")
    assert refused.status == 2
    assert "--root" in refused.err
    assert "TILTYARD_ROOT" in refused.err


def test_a_declared_table_has_no_rows_to_show(tiltyard: Tiltyard) -> None:
    tiltyard("table", "declare", "later")
    refused = tiltyard("table", "head", "later")
    assert (refused.status, "table create later FILE" in refused.err) == (4, True)


def test_only_verbose_shows_where_an_error_came_from(tiltyard: Tiltyard) -> None:
    assert "Traceback" not in tiltyard("table", "head", "nothing").err
    assert "Traceback" in tiltyard("--verbose", "table", "head", "nothing").err


def test_a_bug_is_called_one_and_shows_no_traceback(
    tiltyard: Tiltyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tiltyard.cli.data.everything_about", broken)
    ended = tiltyard("table", "describe", "x")
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "error: ZeroDivisionError: oh",
        "hint:  this is a bug; --verbose shows where it is",
    ]


def test_an_error_never_shows_a_credential(tiltyard: Tiltyard, tmp_path: Path) -> None:
    secret = "hunter22hunter22"
    ended = tiltyard(
        "--verbose", "table", "list", "--root", "s3://nowhere/lake",
        "-p", f"storage.aws_secret_access_key={secret}", "-p", "storage.aws_access_key_id=me",
        "-p", "storage.nonsense_option=1", "-p", "storage.timeout=nonsense",
    )  # fmt: skip
    assert ended.status != 0
    assert secret not in ended.out + ended.err


# -- stores that can't be reached, or that refuse


def _options(storage: Mapping[str, str]) -> list[str]:
    return [each for pair in storage.items() for each in ("-p", f"storage.{'='.join(pair)}")]


def _refusal(ended: Ended) -> tuple[str, str]:
    """The line that says what happened, and the one that says what to do."""
    assert (ended.status, ended.out) == (1, "")
    error, hint = ended.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint:  ")
    return error, hint


@pytest.mark.parametrize("command", ["table list", "table create t products.csv", "doctor"])
def test_a_store_that_does_not_answer_is_given_up(products: Tiltyard, command: str) -> None:
    """Each request is tried five times within a second or so, and that is all."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        storage = {"aws_endpoint": endpoint, "allow_http": "true", "aws_region": "eu-west-1"}
        keys = {"aws_access_key_id": "me", "aws_secret_access_key": "hunter22hunter22"}
        ended = products(*command.split(), "--root", "s3://bucket/lake", *_options(storage | keys))
    error, hint = _refusal(ended)
    assert endpoint in error
    assert "config show" in hint
    assert "hunter22" not in ended.err


def test_a_wrong_key_is_refused_by_the_store(tiltyard: Tiltyard, seaweedfs: S3Server) -> None:
    wrong = replace(seaweedfs, secret_access_key="hunter22hunter22")
    ended = tiltyard(
        "table", "list", "--root", seaweedfs.new_root(), *_options(wrong.storage_options())
    )
    error, hint = _refusal(ended)
    assert "SignatureDoesNotMatch" in error
    assert "for its owner to allow" in hint
    assert "hunter22" not in ended.err


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A catalog that only its owner may look into; those of pytest no other user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        here.chmod(0o755)
        (here / "products.csv").write_text("sku\nL-1\n")
        assert (
            main(["--root", f"{here}/lake", "-q", "table", "create", "t", f"{here}/products.csv"])
            == 0
        )
        (here / "lake").chmod(0o000)
        yield here
        (here / "lake").chmod(0o755)


def test_a_directory_that_may_not_be_read_is_refused(forbidden: Path) -> None:
    commands = ["table list", "table drop t", "table create u products.csv"]
    receiver, sender = multiprocessing.Pipe(duplex=False)
    started = multiprocessing.get_context("spawn").Process(
        target=_as_nobody, args=(forbidden, commands, sender)
    )
    started.start()
    sender.close()
    for ended in receiver.recv():
        error, hint = _refusal(ended)
        assert f"{forbidden}/lake" in error
        assert "ermission denied" in error
        assert "for its owner to allow" in hint
    started.join()


def _as_nobody(here: Path, commands: Sequence[str], sender: Connection) -> None:
    os.chdir(here)
    # What is imported on first use may lie where nobody can read it.
    for each in (*commands, "table describe nothing"):
        main(["--root", "elsewhere", "-q", *each.split()])
    if os.geteuid() == 0:  # whom no permission stops
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    sender.send([_ended(["--root", f"{here}/lake", *command.split()]) for command in commands])


def _ended(arguments: Sequence[str]) -> Ended:
    """One run of the command in a process whose output nobody captures."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    return Ended(status, out.getvalue(), err.getvalue())
