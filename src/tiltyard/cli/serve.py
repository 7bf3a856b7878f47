"""`tiltyard serve` and `tiltyard keys`: a catalog for others, and who may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli import arguments
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import MissingError, UsageError
from tiltyard.cli.output import Field

if TYPE_CHECKING:
    from tiltyard.access import Keyring

KeysFile = Annotated[
    str | None,
    typer.Option(
        "--keys",
        envvar="TILTYARD_KEYS",
        metavar="FILE",
        help="The file of keys. Needed to listen beyond this machine.",
    ),
]


def serve(
    call: Call,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="The address to listen on; 0.0.0.0 for all."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port; 0 for any that is free.")
    ] = 2333,
    keys: KeysFile = None,
    tls_certificate: Annotated[
        str | None,
        typer.Option("--tls-certificate", metavar="FILE", help="The certificate, for https."),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option("--audit", metavar="FILE", help="Also write a line per change here."),
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", help="How many requests are worked on at once.")
    ] = 32,
    rate: Annotated[
        float,
        typer.Option("--rate", metavar="N", help="Requests per second and key; 0 for any number."),
    ] = 1000.0,
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="MIB", help="The largest body, in MiB.")
    ] = 1024,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Write the log as lines of JSON.")
    ] = False,
) -> None:
    """Let others use the catalog over HTTP.

    Speaks the Lance REST namespace protocol, so that pylance, lancedb and clients in other
    languages can use it, has our own operations under /tiltyard/v1/, and pages to look at under
    /console/. Listens on this machine only, unless --host says otherwise; then everybody needs a
    key (see tiltyard keys).
    Stops after what is under way when it is interrupted.
    """
    try:
        from tiltyard.console import pages
        from tiltyard.rest import server
        from tiltyard.rest.app import create_app
        from tiltyard.rest.server import MEBIBYTE, ServerSettings
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the server needs {error.name}, which is not installed",
            "pip install 'tiltyard[server]'",
        ) from error

    settings = ServerSettings(
        host=host,
        port=port,
        keys=keys,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        audit=audit,
        threads=threads,
        requests_per_second=rate,
        max_body_bytes=max_body * MEBIBYTE,
        log_json=log_json,
    )
    server.configure_logging(settings)
    server.serve(create_app(call.catalog, settings, pages=pages()), settings)


# -- keys

app = typer.Typer(
    help="Say who may use the server: make, list and revoke keys.", no_args_is_help=True
)

_NEW_KEY = [Field("name"), Field("role"), Field("key")]
_KEY = [Field("name"), Field("role"), Field("namespace", none="(all)")]


@verb(app, "add")
def add(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is for.")],
    role: Annotated[
        str, typer.Option("--role", help="reader, writer or admin.", metavar="ROLE")
    ] = "reader",
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="ID", help="Only for what is in this namespace."),
    ] = None,
    keys: KeysFile = None,
) -> None:
    """Make a key. It is printed once; the file keeps a hash of it.

    Readers look, writers change what can be undone, admins also purge and maintain.
    """
    from tiltyard.access import Role

    if role not in list(Role):
        raise UsageError(f"there is no role {role!r}", f"one of {', '.join(Role)}")
    prefix = arguments.parse_id(namespace) if namespace else ()
    made = _keyring(keys).add(name, Role(role), prefix)
    call.out.say("Keep this key; it is not shown again.")
    call.out.record(_NEW_KEY, {"name": name, "role": role, "key": made.text})


@verb(app, "list")
def list_keys(call: Call, keys: KeysFile = None) -> None:
    """Show who has a key, and for what."""
    rows = [
        {
            "name": item.name,
            "role": item.role.value,
            "namespace": arguments.shown_id(item.prefix) if item.prefix else None,
        }
        for item in _keyring(keys).listed()
    ]
    call.out.rows(_KEY, rows)


@verb(app, "revoke")
def revoke(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key.")],
    keys: KeysFile = None,
) -> None:
    """Take a key away. A running server refuses it from the next request on."""
    ring = _keyring(keys)
    if name not in {item.name for item in ring.listed()}:
        raise MissingError(f"there is no key called {name!r}", "tiltyard keys list shows them all")
    ring.revoke(name)
    call.out.done(f"Revoked the key of {name}.", {"name": name, "revoked": True})


def _keyring(path: str | None) -> Keyring:
    from tiltyard.access import Keyring

    if path is None:
        raise UsageError("which file of keys?", "pass --keys FILE, or set TILTYARD_KEYS to it")
    return Keyring(path)
