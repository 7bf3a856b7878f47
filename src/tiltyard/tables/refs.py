"""Names for versions: tags, and branches that grow from one. Neither is a commit of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lance
from lance_namespace_urllib3_client.models.branch_contents import BranchContents
from lance_namespace_urllib3_client.models.tag_contents import TagContents

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES, is_missing
from tiltyard.errors import (
    InvalidInputError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    UnsupportedOperationError,
)

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Point:
    """A version of a branch; None is the main one, as Lance has it in its files."""

    version: int
    branch: str | None = None

    @property
    def reference(self) -> tuple[str | None, int]:
        return self.branch, self.version


def on_branch(dataset: lance.LanceDataset, table: Table, branch: str | None) -> lance.LanceDataset:
    """The latest version of a branch, open as the given one is. TableBranchNotFoundError."""
    if branch is None:
        return dataset
    try:
        return dataset.checkout_version((branch, None))
    except FAILURES as error:
        if is_missing(error):
            raise _no_branch(table, branch) from error
        raise


# -- tags


def tags(dataset: lance.LanceDataset) -> dict[str, TagContents]:
    """Every tag, in the order of their names."""
    return {
        name: TagContents(
            version=tag["version"],
            branch=tag["branch"],
            manifestSize=tag["manifest_size"],
        )
        for name, tag in sorted(dataset.tags.list().items())
    }


def tagged(dataset: lance.LanceDataset, table: Table, tag: str) -> Point:
    """What a tag points to. TableTagNotFoundError."""
    contents = dataset.tags.list().get(tag)
    if contents is None:
        raise TableTagNotFoundError(f"table {names.display(table.id)} has no tag '{tag}'")
    return Point(contents["version"], contents["branch"])


def create_tag(dataset: lance.LanceDataset, table: Table, tag: str, point: Point) -> None:
    """Give a version a name. TableTagAlreadyExistsError."""
    if not tag:
        raise InvalidInputError("a tag needs a name")
    if tag in dataset.tags.list():
        raise TableTagAlreadyExistsError(f"table {names.display(table.id)} has a tag '{tag}'")
    dataset.tags.create(tag, point.reference)


# -- branches


def branches(dataset: lance.LanceDataset) -> dict[str, BranchContents]:
    """Every branch but the main one, in the order of their names."""
    branches: dict[str, Any] = dict(dataset.branches.list())
    return {
        name: BranchContents(
            parentBranch=branch["parent_branch"],
            parentVersion=branch["parent_version"],
            createAt=branch["create_at"],
            manifestSize=branch["manifest_size"],
            metadata=branch["metadata"] or None,
        )
        for name, branch in sorted(branches.items())
    }


def must_have_branch(dataset: lance.LanceDataset, table: Table, branch: str) -> None:
    """TableBranchNotFoundError."""
    if branch not in dataset.branches.list():
        raise _no_branch(table, branch)


def must_be_free(dataset: lance.LanceDataset, table: Table, name: str) -> None:
    """TableBranchAlreadyExistsError."""
    if not name or name == MAIN:
        raise InvalidInputError(f"{name!r} can't be the name of a new branch")
    if name in dataset.branches.list():
        raise TableBranchAlreadyExistsError(
            f"table {names.display(table.id)} has a branch '{name}'"
        )


def create_branch(dataset: lance.LanceDataset, name: str, base: Point) -> None:
    """Let a branch grow from a version."""
    dataset.create_branch(name, base.reference)


def delete_branch(dataset: lance.LanceDataset, table: Table, name: str) -> None:
    """Remove a branch with its versions, unless a tag or another branch refers to them."""
    branches: dict[str, Any] = dict(dataset.branches.list())
    if name not in branches:
        raise _no_branch(table, name)
    users = [f"branch '{other}'" for other, of in branches.items() if of["parent_branch"] == name]
    users += [f"tag '{tag}'" for tag, of in dataset.tags.list().items() if of["branch"] == name]
    if users:
        raise UnsupportedOperationError(
            f"branch '{name}' of table {names.display(table.id)} can't be deleted: "
            f"{users[0]} refers to it"
        )
    dataset.branches.delete(name)


def _no_branch(table: Table, branch: str) -> TableBranchNotFoundError:
    return TableBranchNotFoundError(f"table {names.display(table.id)} has no branch '{branch}'")
