"""Bodies: large ones, broken ones and slow ones are refused cleanly, and memory stays bounded."""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import quote, urlsplit

import lance_namespace as api
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance_namespace.errors import ErrorCode
from starlette.testclient import TestClient

import tiltyard
from tests.behaviours.calls import PEOPLE, ipc
from tests.behaviours.places import Disk
from tests.kit.rest import serving
from tests.rest.conftest import LOOPBACK
from tiltyard.rest.app import create_app
from tiltyard.rest.server import MEBIBYTE, ServerSettings

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
SMALL = ServerSettings(
    max_json_bytes=1000, max_body_bytes=100_000, spool_bytes=5_000, max_answer_bytes=20_000
)


@pytest.fixture
def small(namespace: tiltyard.DirectoryNamespace) -> Iterator[TestClient]:
    """A server with small limits."""
    with TestClient(create_app(namespace, SMALL), base_url=LOOPBACK) as made:
        yield made


def _rows(count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(count)), "name": ["x" * 20] * count})


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(
    small: TestClient, root: str
) -> None:
    before = Disk(root).files()

    chunks = (b"x" * 10_000 for _ in range(11))
    for response in (
        small.post("/v1/table/big/create", content=b"x" * 100_001, headers=ARROW),
        small.post("/v1/table/people/describe", content=b" " * 1_001),
        small.post("/v1/table/big/create", content=chunks, headers=ARROW),
    ):
        assert (response.status_code, response.json()["code"]) == (413, ErrorCode.INVALID_INPUT)
    assert Disk(root).files() == before


def test_a_body_that_does_not_fit_into_memory_is_taken_from_a_file(small: TestClient) -> None:
    body = ipc(_rows(2_000))
    assert SMALL.spool_bytes < len(body) < SMALL.max_body_bytes

    made = small.post("/v1/table/big/create", content=body, headers=ARROW)

    assert made.status_code == 200
    assert small.post("/v1/table/big/count_rows", json={}).json() == 2_000


def test_an_answer_is_sent_from_a_file_and_refused_if_it_is_too_large(small: TestClient) -> None:
    small.post("/v1/table/big/create", content=ipc(_rows(2_000)), headers=ARROW)

    some = small.post("/v1/table/big/query", json={"k": 200, "vector": {}})
    all_of_them = small.post("/v1/table/big/query", json={"k": 2_000, "vector": {}})

    assert SMALL.spool_bytes < len(some.content) < SMALL.max_answer_bytes
    assert len(pa.ipc.open_file(some.content).read_all()) == 200
    assert all_of_them.status_code == 400
    assert "fewer rows" in all_of_them.json()["detail"]


def test_compressed_bodies_are_not_understood(small: TestClient) -> None:
    answer = small.post(
        "/v1/table/people/describe", content=b"x", headers={"Content-Encoding": "gzip"}
    )

    assert answer.status_code == 415


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"[" * 900, b'{"id": ["\\ud800"]}', b"NaN", b'{"version": 1e400}', b"null"],
)
def test_what_is_no_json_is_refused(small: TestClient, body: bytes) -> None:
    answer = small.post("/v1/table/people/describe", content=body)

    assert (answer.status_code, answer.json()["code"]) == (400, ErrorCode.INVALID_INPUT)


def test_an_arrow_body_that_was_cut_off_changes_nothing(client: TestClient, root: str) -> None:
    body, before = ipc(PEOPLE), Disk(root).files()

    for length in range(0, len(body) - 8, 7):  # the last eight bytes only say that it ends
        answer = client.post("/v1/table/people/insert", content=body[:length], headers=ARROW)
        assert answer.status_code == 400, f"{length} of {len(body)} bytes"

    assert Disk(root).files() == before


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_an_arrow_body_with_a_wrong_byte_is_refused_or_is_one(
    client: TestClient, data: st.DataObject
) -> None:
    body = bytearray(ipc(PEOPLE))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))

    answer = client.post("/v1/table/copy/create?mode=overwrite", content=bytes(body), headers=ARROW)

    assert answer.status_code in (200, 400), answer.text


ANYTHING = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=80)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    id=st.text(min_size=1, max_size=40), token=ANYTHING, name=st.sampled_from(["x-api-key", "x"])
)
def test_no_id_and_no_header_breaks_the_server(
    client: TestClient, id: str, token: str, name: str
) -> None:
    path = quote(id.encode("utf-8", "surrogatepass"), safe="")
    headers = {name: token.encode("latin-1"), "Authorization": f"Bearer {token}".encode("latin-1")}

    answer = client.post(f"/v1/table/{path}/describe", content=b"", headers=headers)

    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["code"] != ErrorCode.INTERNAL


# -- over a socket


@contextmanager
def _connected(address: str) -> Iterator[socket.socket]:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port)) as made:
        yield made


def _status(connection: socket.socket) -> int:
    with closing(HTTPResponse(connection)) as response:
        response.begin()
        return response.status


INCOMPLETE = (
    b"POST /v1/table/people/insert HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nabc"
)


@pytest.mark.parametrize(
    "limits", [{"idle_seconds": 0.2}, {"body_seconds": 0.3, "idle_seconds": 10}]
)
def test_a_client_that_pauses_or_takes_too_long_is_refused(
    namespace: tiltyard.DirectoryNamespace, limits: dict[str, float]
) -> None:
    settings = ServerSettings(**limits)  # type: ignore[arg-type]
    with serving(namespace, settings) as address, _connected(address) as connection:
        connection.sendall(INCOMPLETE)
        assert _status(connection) == 408


def test_a_client_that_goes_away_leaves_nothing(
    namespace: tiltyard.DirectoryNamespace, root: str
) -> None:
    before = Disk(root).files()
    with serving(namespace) as address:
        with _connected(address) as connection:
            connection.sendall(INCOMPLETE)
        client = api.connect("rest", {"uri": address})
        assert client.count_table_rows(api.CountTableRowsRequest(id=["people"])) is not None
    assert Disk(root).files() == before


@pytest.mark.parametrize("length", [7, 1_000, 100_000])
def test_a_body_arrives_whole_however_it_is_cut(
    namespace: tiltyard.DirectoryNamespace, length: int
) -> None:
    body = ipc(_rows(20_000))
    pieces = (body[at : at + length] for at in range(0, len(body), length))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    with serving(namespace) as address, _connected(address) as connection:
        connection.sendall(
            b"POST /v1/table/big/create HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        )
        assert _status(connection) == 200

    stored = namespace.open_table(["big"]).to_table()
    assert stored == _rows(20_000)


_UPLOAD = """
import sys, resource
from tests.kit.rest import serving
from tiltyard.rest.server import ServerSettings
import tiltyard
with serving(tiltyard.connect(sys.argv[1]), ServerSettings()) as address:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(address, flush=True)
    sys.stdin.readline()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, flush=True)
"""


def _send_noise(address: str, size: int) -> tuple[int, dict[str, object]]:
    """A body that is no Arrow stream, as fast as it goes."""
    parts = urlsplit(address)
    piece = b"x" * MEBIBYTE
    with closing(HTTPConnection(parts.hostname or "", parts.port)) as connection:
        connection.putrequest("POST", "/v1/table/big/create")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        for _ in range(size // MEBIBYTE):
            connection.send(piece)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize("size", [200, pytest.param(1024, marks=pytest.mark.slow)])
def test_a_body_of_a_gigabyte_does_not_fill_the_memory(root: str, size: int) -> None:
    command = [sys.executable, "-c", _UPLOAD, root]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        status, error = _send_noise(server.stdout.readline().strip(), size * MEBIBYTE)
        server.stdin.write("\n")
        server.stdin.flush()
        grown_mib = int(server.stdout.readline()) / 1024

    assert (status, error["code"]) == (400, ErrorCode.INVALID_INPUT)
    assert grown_mib < 120


def _many_rows(size: int) -> tuple[int, Iterator[bytes]]:
    """An Arrow stream of about that size, piece by piece, and its length."""
    rows = pa.table({"text": ["x" * 1000] * 4_000})
    whole, end = ipc(rows), b"\xff\xff\xff\xff\0\0\0\0"
    head = ipc(rows.slice(0, 0)).removesuffix(end)
    batch = whole[len(head) :].removesuffix(end)
    times = size // len(batch)
    pieces = itertools.chain([head], itertools.repeat(batch, times), [end])
    return len(head) + times * len(batch) + len(end), pieces


def _own_mib(process: int) -> int:
    """The memory that only this process has; the pages of a file can be taken from it any time."""
    [line] = re.findall(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(line) // 1024


@pytest.mark.slow
def test_rows_of_a_gigabyte_are_taken_and_do_not_fill_the_memory(root: str) -> None:
    size, pieces = _many_rows(1000 * MEBIBYTE)
    command = [sys.executable, "-c", _UPLOAD, root]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = urlsplit(server.stdout.readline().strip())
        before, seen, is_over = _own_mib(server.pid), [0], threading.Event()

        def watch() -> None:
            while not is_over.wait(0.02):
                seen.append(_own_mib(server.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        with closing(HTTPConnection(address.hostname or "", address.port)) as connection:
            headers = {"Content-Length": str(size)}
            connection.request("POST", "/v1/table/big/create", pieces, headers)
            status = connection.getresponse().status
        is_over.set()
        watching.join()
        server.communicate("\n")

    assert status == 200
    assert max(seen) - before < 200
    count = api.CountTableRowsRequest(id=["big"])
    assert tiltyard.connect(root).count_table_rows(count).count >= 1_000_000
