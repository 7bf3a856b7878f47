"""The verbs that look into a table or go back in its history: query, indexes, tags, branches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import Name
from tiltyard.cli.call import Call, verb
from tiltyard.cli.output import Field

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from lance_namespace import DescribeTableResponse

Branch = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="A branch, not the main one.")
]


def add_to(app: typer.Typer) -> None:
    """Make all of these verbs of `table`."""
    verb(app, "query")(query)
    verb(app, "indexes")(indexes)
    verb(app, "tags")(tags)
    verb(app, "tag")(tag)
    verb(app, "untag")(untag)
    verb(app, "branches")(branches)
    verb(app, "restore")(restore)


def query(
    call: Call,
    table: Name,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only rows that this holds for.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="The best matches, by a full-text index."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many rows.")
    ] = 10,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="An older version, by its number.")
    ] = None,
    branch: Branch = None,
) -> None:
    """Print the rows that a condition or a search finds."""
    import pyarrow as pa
    from lance_namespace import QueryTableRequest

    asked: dict[str, Any] = {
        "id": arguments.parse_id(table),
        "k": limit,
        "vector": {},
        "filter": where,
        "version": version,
        "branch": branch,
    }
    if columns is not None:
        asked["columns"] = {"column_names": [each.strip() for each in columns.split(",")]}
    if search is not None:
        asked["full_text_query"] = {"string_query": {"query": search}}
    answer = call.catalog.query_table(QueryTableRequest.model_validate(asked))
    rows = pa.ipc.open_file(answer.data).read_all()
    call.out.rows([Field(name, formatting.value) for name in rows.schema.names], rows.to_pylist())


def indexes(call: Call, table: Name, branch: Branch = None) -> None:
    """List the indexes of a table, and how much of it they cover."""
    from lance_namespace import ListTableIndicesRequest

    request = ListTableIndicesRequest(id=arguments.parse_id(table), branch=branch)
    fields = [
        Field("index"),
        Field("type"),
        Field("columns", formatting.value),
        Field("indexed_rows", formatting.number, right=True, title="rows in it"),
        Field("unindexed_rows", formatting.number, right=True, title="not yet"),
        Field("bytes", formatting.size, right=True, title="size"),
    ]
    call.out.rows(
        fields,
        (
            {
                "index": index.index_name,
                "type": index.index_type,
                "columns": index.columns,
                "indexed_rows": index.num_indexed_rows,
                "unindexed_rows": index.num_unindexed_rows,
                "bytes": index.size_bytes,
            }
            for index in call.catalog.list_table_indices(request).indexes
        ),
    )


def tags(call: Call, table: Name) -> None:
    """List the tags of a table, and the versions that they name."""
    from lance_namespace import ListTableTagsRequest

    answer = call.catalog.list_table_tags(ListTableTagsRequest(id=arguments.parse_id(table)))
    call.out.rows(
        [Field("tag"), Field("version"), Field("branch")],
        (
            {"tag": name, "version": each.version, "branch": each.branch}
            for name, each in answer.tags.items()
        ),
    )


def tag(
    call: Call,
    table: Name,
    name: Annotated[str, typer.Argument(metavar="TAG", help="The tag's name.")],
    version: Annotated[
        int | None, typer.Argument(metavar="VERSION", help="Which; none means the latest.")
    ] = None,
    branch: Branch = None,
    move: Annotated[
        bool, typer.Option("--move", help="Let a tag that exists name this version.")
    ] = False,
) -> None:
    """Give a version of a table a name.

    It is not deleted as long as it has one.
    """
    from lance_namespace import (
        CreateTableTagRequest,
        DescribeTableVersionRequest,
        UpdateTableTagRequest,
    )

    identifier = arguments.parse_id(table)
    if version is None:
        latest = DescribeTableVersionRequest(id=identifier, branch=branch)
        version = call.catalog.describe_table_version(latest).version.version
    wanted: dict[str, Any] = {"tag": name, "version": version, "branch": branch}
    if move:
        call.catalog.update_table_tag(UpdateTableTagRequest(id=identifier, **wanted))
    else:
        call.catalog.create_table_tag(CreateTableTagRequest(id=identifier, **wanted))
    shown = arguments.shown_id(identifier)
    result = {"table": shown, **wanted}
    call.out.done(f"Version {version} of table {shown} is tagged {name}.", result)


def untag(
    call: Call,
    table: Name,
    name: Annotated[str, typer.Argument(metavar="TAG", help="The tag's name.")],
) -> None:
    """Take a tag away. Its version stays until versions are deleted."""
    from lance_namespace import DeleteTableTagRequest

    identifier = arguments.parse_id(table)
    call.catalog.delete_table_tag(DeleteTableTagRequest(id=identifier, tag=name))
    shown = arguments.shown_id(identifier)
    call.out.done(f"Table {shown} has no tag {name} any more.", {"table": shown, "tag": name})


def branches(call: Call, table: Name) -> None:
    """List the branches of a table, and where they begin."""
    from lance_namespace import ListTableBranchesRequest

    from tiltyard.clock import moment

    request = ListTableBranchesRequest(id=arguments.parse_id(table))
    found = call.catalog.list_table_branches(request).branches
    call.out.rows(
        [
            Field("branch"),
            Field("from_version", title="from version"),
            Field("from_branch", title="of branch", none="main"),
            Field("created", formatting.age),
        ],
        (
            {
                "branch": name,
                "from_version": each.parent_version,
                "from_branch": each.parent_branch,
                "created": moment(each.create_at * 1000),
            }
            for name, each in found.items()
        ),
    )


def restore(
    call: Call,
    table: Name,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Which to go back to.")],
    branch: Branch = None,
) -> None:
    """Make an older version of a table the latest again.

    What came since stays in its history.
    """
    from lance_namespace import RestoreTableRequest

    identifier = arguments.parse_id(table)
    call.catalog.restore_table(RestoreTableRequest(id=identifier, version=version, branch=branch))
    shown = arguments.shown_id(identifier)
    result = {"table": shown, "restored_version": version}
    call.out.done(f"Table {shown} is as it was in version {version}.", result)


# -- reading one table


def count_rows(call: Call, identifier: Sequence[str]) -> int:
    """How many rows the latest version has."""
    return _opened(call, identifier).count_rows()


def first_rows(call: Call, identifier: Sequence[str], limit: int) -> pa.Table:
    """The first rows of the latest version."""
    return _opened(call, identifier).to_table(limit=limit)


def everything_about(call: Call, identifier: Sequence[str]) -> dict[str, Any]:
    """One record: what the catalog answers, and what the table's own files tell."""
    from tiltyard.tables import schema

    answer = _described(call, identifier)
    found: dict[str, Any] = {
        "table": arguments.shown_id(identifier),
        "location": answer.location,
        "declared_only": bool(answer.is_only_declared),
        "properties": answer.properties or {},
    }
    if answer.is_only_declared:
        return found
    dataset = call.catalog.open_table(identifier)
    latest: Any = dataset.get_version()
    modified: datetime = latest["timestamp"]
    return found | {
        "version": dataset.version,
        "rows": dataset.count_rows(),
        "fragments": int(latest["metadata"]["total_fragments"]),
        "bytes": int(latest["metadata"]["total_files_size"]),
        "modified": modified.astimezone(UTC),
        "columns": [
            {
                "column": column.name,
                "type": formatting.type_name(column.type),
                "null": column.nullable,
            }
            for column in schema.to_json(dataset.schema).fields
        ],
    }


def _described(call: Call, identifier: Sequence[str]) -> DescribeTableResponse:
    from lance_namespace import DescribeTableRequest

    return call.catalog.describe_table(
        DescribeTableRequest(id=list(identifier), check_declared=True)
    )


def _opened(call: Call, identifier: Sequence[str]) -> lance.LanceDataset:
    from tiltyard.errors import TableVersionNotFoundError

    if _described(call, identifier).is_only_declared:
        shown = arguments.shown_id(identifier)
        raise TableVersionNotFoundError(
            f"table '{shown}' is declared and holds no data yet",
            hint=f"tiltyard table create {shown} FILE writes its first version",
        )
    return call.catalog.open_table(identifier)
