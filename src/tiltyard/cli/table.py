"""`tiltyard table`: which tables there are, what is in one, making and naming them.

The verbs that drop a table and bring it back are in `table_lifecycle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tiltyard import formatting
from tiltyard.cli import arguments, data, files
from tiltyard.cli.arguments import Name, Names, Properties
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import Exit, UsageError
from tiltyard.cli.options import parse_pairs
from tiltyard.cli.output import Field

app = typer.Typer(help="List, describe, create, read and drop tables.", no_args_is_help=True)


class CreateMode(StrEnum):
    CREATE = "create"
    EXIST_OK = "exist_ok"
    OVERWRITE = "overwrite"


class RegisterMode(StrEnum):
    CREATE = "create"
    OVERWRITE = "overwrite"


@verb(app, "list")
def list_(
    call: Call,
    namespace: Annotated[
        str | None,
        typer.Argument(metavar="NAMESPACE", help="Where to look; none means the root."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="The tables of all namespaces, with their full ids.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="How many to list at most.")
    ] = None,
    declared: Annotated[
        bool,
        typer.Option(
            "--declared/--no-declared", help="With or without tables that hold no data yet."
        ),
    ] = True,
) -> None:
    """List the tables of a namespace, in the order of their names."""
    from lance_namespace import ListTablesRequest

    from tiltyard.catalog.names import split_object_id

    parent = arguments.parse_id(namespace)
    request = ListTablesRequest(
        id=[] if all_ else parent, limit=limit, include_declared=None if declared else False
    )
    if all_:
        found = [split_object_id(table) for table in call.catalog.list_all_tables(request).tables]
    else:
        found = [(*parent, table) for table in call.catalog.list_tables(request).tables]
    call.out.rows([Field("table")], ({"table": arguments.shown_id(each)} for each in found))


@verb(app, "describe")
def describe(call: Call, table: Name) -> None:
    """Show a table's schema, version, size and location."""
    fields = [
        Field("table"),
        Field("location"),
        Field("declared_only", formatting.yes_or_no),
        Field("version"),
        Field("rows", formatting.number),
        Field("fragments", formatting.number),
        Field("bytes", formatting.size),
        Field("modified", formatting.age),
        Field("properties", formatting.value),
        Field(
            "columns", inside=[Field("column"), Field("type"), Field("null", formatting.yes_or_no)]
        ),
    ]
    call.out.record(fields, data.everything_about(call, arguments.parse_id(table)))


@verb(app, "exists")
def exists(call: Call, table: Name) -> None:
    """Tell whether a table exists, by the exit status.

    It is 0 if the table exists, and 4 if not.
    """
    from lance_namespace import TableExistsRequest

    from tiltyard.errors import TableNotFoundError

    identifier = arguments.parse_id(table)
    shown = arguments.shown_id(identifier)
    try:
        call.catalog.table_exists(TableExistsRequest(id=identifier))
    except TableNotFoundError:
        call.out.done(f"There is no table {shown}.", {"table": shown, "exists": False})
        raise typer.Exit(Exit.NOT_FOUND) from None
    call.out.done(f"Table {shown} exists.", {"table": shown, "exists": True})


@verb(app, "versions")
def versions(
    call: Call,
    table: Name,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="How many to list at most.")
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Those of a branch, not of the main one."),
    ] = None,
) -> None:
    """List the versions of a table that can be read, newest first."""
    from lance_namespace import ListTableVersionsRequest

    from tiltyard.clock import moment

    request = ListTableVersionsRequest(
        id=arguments.parse_id(table), limit=limit, branch=branch, descending=True
    )
    fields = [
        Field("version"),
        Field("committed", formatting.age),
        Field("manifest_bytes", formatting.size, title="manifest size"),
        Field("manifest"),
    ]
    call.out.rows(
        fields,
        (
            {
                "version": version.version,
                "committed": moment(version.timestamp_millis or 0),
                "manifest_bytes": version.manifest_size,
                "manifest": version.manifest_path.rpartition("/")[2],
            }
            for version in call.catalog.list_table_versions(request).versions
        ),
    )


@verb(app, "count")
def count(call: Call, table: Name) -> None:
    """Count the rows of a table."""
    identifier = arguments.parse_id(table)
    rows = data.count_rows(call, identifier)
    fields = [Field("table"), Field("rows", formatting.number, right=True)]
    call.out.rows(fields, [{"table": arguments.shown_id(identifier), "rows": rows}])


@verb(app, "head")
def head(
    call: Call,
    table: Name,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many rows.")
    ] = 10,
) -> None:
    """Print the first rows of a table.

    For people, long texts and vectors are shortened; the other formats print them in full.
    """
    rows = data.first_rows(call, arguments.parse_id(table), limit)
    call.out.rows([Field(name, formatting.value) for name in rows.schema.names], rows.to_pylist())


@verb(app, "create")
def create(
    call: Call,
    table: Name,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Parquet, CSV, JSON Lines or Arrow.")
    ],
    format_: Annotated[
        files.FileFormat | None,
        typer.Option("--format", help="What the file is written in, if its name does not tell."),
    ] = None,
    mode: Annotated[
        CreateMode, typer.Option("--mode", help="What to do if the table exists.")
    ] = CreateMode.CREATE,
    set_: Properties = None,
) -> None:
    """Create a table from the rows of a file."""
    from lance_namespace import CreateTableRequest

    identifier = arguments.parse_id(table)
    rows = files.read(file, format_)
    request = CreateTableRequest(
        id=identifier, mode=mode.value, properties=parse_pairs(set_, "--set") or None
    )
    answer = call.catalog.create_table(request, files.as_ipc(rows))
    result = {
        "table": arguments.shown_id(identifier),
        "version": answer.version,
        "location": answer.location,
    }
    call.out.done(f"Table {result['table']} is there, at version {answer.version}.", result)


@verb(app, "declare")
def declare(call: Call, tables: Names, set_: Properties = None) -> None:
    """Reserve the names of tables to be written later.

    Where the catalog has a manifest, several names are reserved in one commit.
    """
    from lance_namespace import DeclareTableRequest

    wanted = arguments.parse_ids(tables)
    properties = parse_pairs(set_, "--set") or None
    answers = call.catalog.declare_tables(
        [DeclareTableRequest(id=each, properties=properties) for each in wanted]
    )
    done = [(each, answer.location) for each, answer in zip(wanted, answers, strict=True)]
    _tell(call, "Declared table {table} at {location}.", done)


@verb(app, "rename")
def rename(
    call: Call, table: Name, new: Annotated[str, typer.Argument(metavar="NEW", help="Its new id.")]
) -> None:
    """Give a table another name, here or in another namespace."""
    from lance_namespace import RenameTableRequest

    identifier, target = arguments.parse_id(table), arguments.parse_id(new)
    request = RenameTableRequest(
        id=identifier, new_table_name=target[-1], new_namespace_id=target[:-1]
    )
    call.catalog.rename_table(request)
    result = {"table": arguments.shown_id(target), "renamed_from": arguments.shown_id(identifier)}
    call.out.done(f"Renamed table {result['renamed_from']} to {result['table']}.", result)


@verb(app, "register")
def register(
    call: Call,
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE LOCATION",
            help="An id, and a directory below the root like name.lance; or several such pairs.",
        ),
    ],
    mode: Annotated[
        RegisterMode, typer.Option("--mode", help="What to do if the name is taken.")
    ] = RegisterMode.CREATE,
    set_: Properties = None,
) -> None:
    """Add tables that lie in the catalog's directory."""
    from lance_namespace import RegisterTableRequest

    if len(pairs) % 2:
        raise UsageError(
            f"{pairs[-1]} has no location", "after each table comes the directory that it lies in"
        )
    wanted = arguments.parse_ids(pairs[::2])
    properties = parse_pairs(set_, "--set") or None
    answers = call.catalog.register_tables(
        [
            RegisterTableRequest(id=each, location=location, mode=mode.value, properties=properties)
            for each, location in zip(wanted, pairs[1::2], strict=True)
        ]
    )
    done = [(each, answer.location) for each, answer in zip(wanted, answers, strict=True)]
    _tell(call, "Registered table {table} at {location}.", done)


@verb(app, "deregister")
def deregister(call: Call, table: Name) -> None:
    """Take a table out of the catalog and keep its data."""
    from lance_namespace import DeregisterTableRequest

    identifier = arguments.parse_id(table)
    answer = call.catalog.deregister_table(DeregisterTableRequest(id=identifier))
    result = {"table": arguments.shown_id(identifier), "location": answer.location}
    call.out.done(
        f"Deregistered table {result['table']}; its data stays at {answer.location}.", result
    )


def _tell(call: Call, sentence: str, done: Sequence[tuple[Sequence[str], str | None]]) -> None:
    """One line for each table, and one row: for a single one too, so that scripts find one form."""
    rows = [{"table": arguments.shown_id(each), "location": location} for each, location in done]
    lines = "\n".join(sentence.format(**row) for row in rows)
    call.out.summary(lines, [Field("table"), Field("location")], rows)
