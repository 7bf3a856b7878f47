"""`tiltyard serve` and `tiltyard keys`, as they are typed."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import lance_namespace as api
import pyarrow as pa
import pytest

from tests.behaviours.calls import ipc
from tests.cli.conftest import Tiltyard
from tiltyard.access import Keyring, Principal, Role
from tiltyard.rest.client import RestCatalog


def test_a_key_is_made_shown_once_listed_and_revoked(tiltyard: Tiltyard, tmp_path: Path) -> None:
    path = str(tmp_path / "keys.json")

    made = tiltyard(
        "keys",
        "add",
        "ann",
        "--role",
        "writer",
        "--namespace",
        "prod",
        "--keys",
        path,
        "-o",
        "json",
    )
    key = json.loads(made.out)["key"]
    assert Keyring(path).principal(key) == Principal("ann", Role.WRITER, ("prod",))

    listed = tiltyard("keys", "list", "--keys", path)
    assert listed.lines[-1].split() == ["ann", "writer", "prod"]
    assert key not in listed.out

    assert tiltyard("keys", "revoke", "ann", "--keys", path).status == 0
    assert Keyring(path).principal(key) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "add", "ann", "--role", "boss", "--keys", "k.json"),
        ("keys", "list"),
        ("serve", "--host", "0.0.0.0"),
        ("serve", "--tls-key", "k.pem"),
    ],
)
def test_what_makes_no_sense_is_told_and_nothing_is_done(
    tiltyard: Tiltyard, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = tiltyard(*arguments, "--root", str(tmp_path / "root"))

    assert ended.status == 2
    assert "hint:" in ended.err or "no key called" in ended.err or "both" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "tiltyard", "--root", str(tmp_path), "serve"]
        ended = subprocess.run(
            [*command, "--port", port], capture_output=True, text=True, timeout=300, check=False
        )
    assert ended.returncode == 1
    assert f"error: the server can't listen at 127.0.0.1:{port}" in ended.stderr
    assert "--port chooses another" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_server_ends_what_is_under_way_before_it_stops(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    command = [sys.executable, "-m", "tests.cli.serving", "serve", "--root", root, "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--log-json"], stdin=pipe, stderr=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        address = next(
            found[0]
            for line in server.stderr
            if (found := re.search(r"http://127\.0\.0\.1:\d+", line))
        )
        catalog = RestCatalog(address)
        rows = ipc(pa.table({"id": range(100_000)}))
        catalog.create_table(api.CreateTableRequest(id=["people"]), rows)

        answers: list[int | None] = []

        def insert() -> None:
            request = api.InsertIntoTableRequest(id=["people"])
            answers.append(catalog.insert_into_table(request, rows).num_inserted_rows)

        slow = threading.Thread(target=insert)
        slow.start()
        for line in server.stderr:  # the commit has begun
            if "slowly" in line:
                break
        server.send_signal(signal.SIGTERM)
        server.stdin.write("go on\n")
        server.stdin.flush()
        slow.join()
        server.stderr.read()

    assert answers == [100_000]
    assert server.returncode in (0, -signal.SIGTERM)
