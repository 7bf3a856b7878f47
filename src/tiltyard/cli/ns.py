"""`tiltyard ns`: namespaces, the folders of a catalog. The root is the one without a name."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import Properties
from tiltyard.cli.call import Call, verb
from tiltyard.cli.options import parse_pairs
from tiltyard.cli.output import Field
from tiltyard.cli.table import CreateMode
from tiltyard.cli.terminal import confirm

app = typer.Typer(help="Make, list, describe and drop namespaces.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Its id, like prod.sales.")]
MaybeName = Annotated[
    str | None, typer.Argument(metavar="NAMESPACE", help="Its id; none means the root.")
]


class DropMode(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


class Behavior(StrEnum):
    RESTRICT = "restrict"
    CASCADE = "cascade"


@verb(app, "create")
def create(
    call: Call,
    name: Name,
    mode: Annotated[
        CreateMode, typer.Option("--mode", help="What to do if it exists.")
    ] = CreateMode.CREATE,
    set_: Properties = None,
) -> None:
    """Make a namespace."""
    from lance_namespace import CreateNamespaceRequest

    identifier = arguments.parse_id(name)
    request = CreateNamespaceRequest(
        id=identifier, mode=mode.value, properties=parse_pairs(set_, "--set") or None
    )
    answer = call.catalog.create_namespace(request)
    result = {"namespace": arguments.shown_id(identifier), "properties": answer.properties or {}}
    call.out.done(f"Created namespace {result['namespace']}.", result)


@verb(app, "list")
def list_(call: Call, name: MaybeName = None) -> None:
    """List the namespaces inside a namespace."""
    from lance_namespace import ListNamespacesRequest

    parent = arguments.parse_id(name)
    found = call.catalog.list_namespaces(ListNamespacesRequest(id=parent)).namespaces
    rows = [{"namespace": arguments.shown_id([*parent, each])} for each in found]
    call.out.rows([Field("namespace")], rows)


@verb(app, "describe")
def describe(call: Call, name: MaybeName = None) -> None:
    """Show the properties of a namespace."""
    from lance_namespace import DescribeNamespaceRequest

    identifier = arguments.parse_id(name)
    answer = call.catalog.describe_namespace(DescribeNamespaceRequest(id=identifier))
    fields = [Field("namespace"), Field("properties", formatting.value)]
    shown = arguments.shown_id(identifier) or "(root)"
    call.out.record(fields, {"namespace": shown, "properties": answer.properties or {}})


@verb(app, "drop")
def drop(
    call: Call,
    name: Name,
    mode: Annotated[
        DropMode, typer.Option("--mode", help="What to do if there is none.")
    ] = DropMode.FAIL,
    behavior: Annotated[
        Behavior, typer.Option("--behavior", help="What to do if it is not empty.")
    ] = Behavior.RESTRICT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a cascade.")] = False,
) -> None:
    """Drop a namespace.

    One that is not empty is refused, unless you ask for a cascade. That puts all tables in it into
    the trash, from where each can be brought back; the namespaces in it are gone.
    """
    from lance_namespace import DropNamespaceRequest

    identifier = arguments.parse_id(name)
    if behavior is Behavior.CASCADE:
        confirm(call, "drop all of namespace", name, yes=yes)
    request = DropNamespaceRequest(id=identifier, mode=mode.value, behavior=behavior.value)
    call.catalog.drop_namespace(request)
    shown = arguments.shown_id(identifier)
    call.out.done(f"Dropped namespace {shown}.", {"namespace": shown})
