"""TLS, with a certificate of a real authority that was made for the test."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
import urllib3
from lance.namespace import RestNamespace

from tests.behaviours.calls import PEOPLE, ipc
from tests.rest.conftest import People
from tiltyard.access import Role
from tiltyard.rest.client import RestCatalog

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


@dataclass(frozen=True)
class Served:
    """A server with a certificate, and the authority that signed it."""

    address: str
    authority: str
    people: People

    @property
    def host(self) -> tuple[str, int]:
        parts = urlsplit(self.address)
        return str(parts.hostname), int(parts.port or 0)


def _certificate(folder: Path, name: str, *how: str) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    files = ["-nodes", "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
    subject = ["-subj", f"/CN={name}"]
    subprocess.run([*command, *files, *subject, *how], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`tiltyard serve`, as it is typed, over an empty catalog."""
    folder = tmp_path_factory.mktemp("tls")
    people = People(str(folder / "keys.json"))
    for role in Role:
        people.add(role.value, role)
    _certificate(folder, "authority")
    signed = ["-CA", "authority.pem", "-CAkey", "authority.key"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
    _certificate(folder, "server", *signed, *names)
    command = [sys.executable, "-m", "tiltyard", "--root", "root", "serve", "--port", "0"]
    tls = ["--tls-certificate", "server.pem", "--tls-key", "server.key", "--keys", people.path]
    with subprocess.Popen(
        [*command, *tls], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        matches = (re.search(r"https://127\.0\.0\.1:\d+", line) for line in server.stderr)
        address = next(match[0] for match in matches if match)
        try:
            yield Served(address, str(folder / "authority.pem"), people)
        finally:
            server.terminate()
            server.stderr.read()


def test_clients_that_trust_the_authority_come_in(served: Served) -> None:
    people = served.people
    catalog = RestCatalog(served.address, key=people.keys["admin"], ca_certificate=served.authority)
    catalog.create_table(api.CreateTableRequest(id=["people"]), ipc(PEOPLE))
    catalog.drop_table(api.DropTableRequest(id=["people"]), reason="a test")
    catalog.undrop_table(["people"])

    key = {"header.x-api-key": people.keys["reader"]}
    pylance = RestNamespace(uri=served.address, **{"tls.ssl_ca_cert": served.authority}, **key)
    seen: pa.Table = lance.dataset(namespace_client=pylance, table_id=["people"]).to_table()
    assert seen == PEOPLE


def test_others_do_not_trust_the_server(served: Served) -> None:
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(served.host) as raw:
        ssl.create_default_context().wrap_socket(raw, server_hostname="127.0.0.1")


def test_who_speaks_plainly_is_not_answered(served: Served) -> None:
    plainly = served.address.replace("https", "http")
    headers = served.people.headers("reader")

    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", f"{plainly}/v1/table", headers=headers, retries=False)


def test_browsers_are_told_to_stay_with_https(served: Served) -> None:
    with urllib3.PoolManager(ca_certs=served.authority) as http:
        answer = http.request("GET", f"{served.address}/healthz")

    assert (answer.status, answer.data) == (200, b"ok\n")
    assert "max-age" in answer.headers["strict-transport-security"]
