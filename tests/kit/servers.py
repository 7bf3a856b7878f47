"""The object stores that tests run against, started for a block: MiniStack and SeaweedFS speak S3,
Azurite speaks Azure, and rclone speaks an S3 that ignores conditions, as a control. A block gets a
bucket of the server; `make setup` installs the programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from tests.kit.buckets import AzureServer, S3Server, Server
from tests.kit.process import Launch, free_port, free_ports, running
from tools.servers import AZURITE_MAIN, AZURITE_NODE, S3_VENV

_NOWHERE = Path("/dev/null")

# Words that occur nowhere else, so that a test can tell whether a message gives them away.
_KEY_ID, _SECRET = "quintain-key-id", "quintain-secret-key"

# The account that every Azure emulator has, with its published key.
_AZURE_ACCOUNT = "devstoreaccount1"
_AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class NotInstalled(Exception):
    """The server's program is not under .servers."""


@contextmanager
def ministack() -> Iterator[S3Server]:
    """Fast, right under races, and does not check the signatures of plain requests."""
    program = _program("ministack")

    def launch(folder: Path, server: S3Server) -> Launch:
        env = {
            "MINISTACK_HOST": "127.0.0.1",
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(_port_of(server)),
            "SERVICES": "s3",
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(folder),
            **_keys(server),
        }
        return Launch([program], server.create_bucket, env)

    with _s3("ministack", launch) as server:
        yield server


@contextmanager
def rclone_s3() -> Iterator[S3Server]:
    """Ignores If-Match and If-None-Match without a word: whoever needs them must refuse it."""
    program = _program("rclone")

    def launch(folder: Path, server: S3Server) -> Launch:
        address = urlsplit(server.endpoint).netloc
        keys = f"{server.access_key_id},{server.secret_access_key}"
        command = ["serve", "s3", "--addr", address, "--auth-key", keys, str(folder)]
        return Launch(
            [program, *command], server.create_bucket, {"RCLONE_CONFIG": f"{folder}.conf"}
        )

    with _s3("rclone", launch) as server:
        yield server


@contextmanager
def seaweedfs() -> Iterator[S3Server]:
    """Checks signatures; losers of a race for one key wait in steps of a second."""
    program = _program("weed")
    used: list[int] = []

    def launch(folder: Path, server: S3Server) -> Launch:
        # Each part also listens 10,000 ports higher.
        ports = [_port_of(server), *free_ports(4, and_above=10_000)]
        used.extend(each for port in ports for each in (port, port + 10_000))
        parts = ("s3", "master", "volume", "filer", "admin")
        flags = [
            *(f"-{part}.port={port}" for part, port in zip(parts, ports, strict=True)),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}"),
            *("-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *("-volume.preStopSeconds=0", "-master.telemetry=false"),
        ]
        env = {"TMPDIR": str(folder), **_keys(server)}
        return Launch([program, "mini", *flags], server.create_bucket, env)

    try:
        with _s3("seaweedfs", launch) as server:
            yield server
    finally:
        # Killed, it leaves its sockets behind, and it has them in /tmp whatever TMPDIR says.
        for port in used:
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                path.unlink(missing_ok=True)


@contextmanager
def azurite() -> Iterator[AzureServer]:
    """Right under races; loses the last seconds when killed."""
    if not (AZURITE_NODE.exists() and AZURITE_MAIN.exists()):
        raise NotInstalled("Azurite is not under .servers: run `make setup`")
    servers: list[AzureServer] = []

    def plan(folder: Path) -> Launch:
        port = free_port()
        endpoint = f"http://127.0.0.1:{port}"
        server = AzureServer("azurite", endpoint, _AZURE_ACCOUNT, _AZURE_KEY, _NOWHERE)
        servers.append(server)
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
        rest = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        return Launch([AZURITE_NODE, AZURITE_MAIN, *where, *rest], server.create_bucket)

    with running("azurite", plan) as log:
        yield replace(servers[-1], log=log)


@contextmanager
def _s3(name: str, launch: Callable[[Path, S3Server], Launch]) -> Iterator[S3Server]:
    servers: list[S3Server] = []

    def plan(folder: Path) -> Launch:
        (port,) = free_ports(1, and_above=10_000)
        servers.append(S3Server(name, f"http://127.0.0.1:{port}", _KEY_ID, _SECRET, _NOWHERE))
        return launch(folder, servers[-1])

    with running(name, plan) as log:
        yield replace(servers[-1], log=log)


def _program(name: str) -> Path:
    program = S3_VENV / "bin" / name
    if not program.exists():
        raise NotInstalled(f"{name} is not under .servers: run `make setup`")
    return program


def _keys(server: S3Server) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": server.access_key_id,
        "AWS_SECRET_ACCESS_KEY": server.secret_access_key,
    }


def _port_of(server: S3Server) -> int:
    port = urlsplit(server.endpoint).port
    assert port is not None
    return port


__all__ = [
    "AzureServer",
    "NotInstalled",
    "S3Server",
    "Server",
    "azurite",
    "ministack",
    "rclone_s3",
    "seaweedfs",
]
