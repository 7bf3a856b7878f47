"""Group commit: callers share a commit, and each gets its own verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lance
import lance_namespace as api
import pytest

import tiltyard
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row
from tiltyard.catalog.manifest.committer import Committer, Then
from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits import AddTable, AllOf, Edit
from tiltyard.errors import (
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    ThrottlingError,
)
from tiltyard.store import Retry


@pytest.fixture
def catalog(tmp_path: Path) -> tiltyard.DirectoryNamespace:
    opened = tiltyard.connect(tmp_path, dir_listing_enabled=False)
    opened.create_namespace(api.CreateNamespaceRequest(id=["lake"]))
    return opened


def _manifest(catalog: tiltyard.DirectoryNamespace) -> ManifestCatalog:
    assert isinstance(catalog.context.catalog, ManifestCatalog)
    return catalog.context.catalog


def _declare(catalog: tiltyard.DirectoryNamespace, *name: str) -> None:
    catalog.declare_table(api.DeclareTableRequest(id=list(name)))


def _tables(catalog: tiltyard.DirectoryNamespace) -> list[str]:
    return catalog.list_tables(api.ListTablesRequest(id=["lake"])).tables


def _version(catalog: tiltyard.DirectoryNamespace) -> int:
    return lance.dataset(f"{catalog.context.settings.root}/__manifest").version


def _at_once(*calls: Callable[[], object]) -> list[BaseException | None]:
    """Run all calls in threads that start together; what each raised."""
    outcomes: list[BaseException | None] = [None] * len(calls)
    ready = threading.Barrier(len(calls))

    def run(at: int) -> None:
        ready.wait()
        try:
            calls[at]()
        except BaseException as error:
            outcomes[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_many_callers_share_few_commits(catalog: tiltyard.DirectoryNamespace) -> None:
    before = _version(catalog)

    outcomes = _at_once(*(lambda at=at: _declare(catalog, "lake", f"t{at:02}") for at in range(32)))

    assert outcomes == [None] * 32
    assert _tables(catalog) == [f"t{at:02}" for at in range(32)]
    assert _version(catalog) - before < 32


def test_a_bad_member_fails_alone(catalog: tiltyard.DirectoryNamespace) -> None:
    _declare(catalog, "lake", "taken")

    outcomes = _at_once(
        lambda: _declare(catalog, "lake", "good"),
        lambda: _declare(catalog, "lake", "taken"),
        lambda: _declare(catalog, "nowhere", "t"),
        lambda: _declare(catalog, "lake", "also good"),
    )

    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [type(None), TableAlreadyExistsError, NamespaceNotFoundError, type(None)]
    assert _tables(catalog) == ["also good", "good", "taken"]


def test_of_equal_wishes_in_one_group_one_is_granted(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    outcomes = _at_once(*(lambda: _declare(catalog, "lake", "t") for _ in range(16)))

    assert outcomes.count(None) == 1
    assert {type(outcome) for outcome in outcomes if outcome} == {TableAlreadyExistsError}
    assert _tables(catalog) == ["t"]


def test_inserts_renames_and_drops_go_together(catalog: tiltyard.DirectoryNamespace) -> None:
    for name in ("old", "gone"):
        _declare(catalog, "lake", name)
    renaming = api.RenameTableRequest(id=["lake", "old"], new_table_name="new")
    dropping = api.DropTableRequest(id=["lake", "gone"])

    outcomes = _at_once(
        lambda: catalog.rename_table(renaming),
        lambda: catalog.drop_table(dropping),
        lambda: _declare(catalog, "lake", "t"),
    )

    assert outcomes == [None] * 3
    assert _tables(catalog) == ["new", "t"]


@dataclass(frozen=True)
class Act(Edit):
    """An edit that does whatever a test wants of it."""

    act: Callable[[Draft], Change]

    def apply(self, draft: Draft) -> Change:
        return self.act(draft)


def test_an_edit_that_raises_leaves_no_trace_in_the_commit(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    manifest = _manifest(catalog)
    good = AddTable(as_row(manifest.place(("lake", "t"), {})))
    bad = AddTable(as_row(manifest.place(("nowhere", "t"), {})))

    with pytest.raises(NamespaceNotFoundError):
        manifest.submit(AllOf((good, bad)))

    assert _tables(catalog) == []


def test_a_full_queue_refuses_and_the_waiting_go_on(catalog: tiltyard.DirectoryNamespace) -> None:
    manifest = _manifest(catalog)
    committer = Committer(manifest.table, Retry(), longest_queue=1)
    refused: list[BaseException | None] = []

    def leading(_: Draft) -> Change:
        waiting = partial(committer.submit, _adding(manifest, "waiting"))
        waiter = threading.Thread(target=waiting)
        waiter.start()
        while not committer.waiting:
            threading.Event().wait(0.001)
        refused.extend(_at_once(lambda: committer.submit(_adding(manifest, "refused"))))
        waiters.append(waiter)
        return Change()

    waiters: list[threading.Thread] = []
    committer.submit(Act(leading))
    waiters[0].join()

    assert [type(error) for error in refused] == [ThrottlingError]
    assert _tables(catalog) == ["waiting"]


def test_an_interrupted_leader_hands_over(catalog: tiltyard.DirectoryNamespace) -> None:
    manifest = _manifest(catalog)
    waiting = threading.Event()

    def interrupted(_: Draft) -> Change:
        waiting.wait(300)
        raise KeyboardInterrupt

    def follow() -> None:
        waiting.set()
        _declare(catalog, "lake", "t")

    outcomes = _at_once(lambda: manifest.submit(Act(interrupted)), follow)

    assert isinstance(outcomes[0], KeyboardInterrupt)
    assert outcomes[1] is None or isinstance(outcomes[1], ServiceUnavailableError)
    _declare(catalog, "lake", "after")
    assert "after" in _tables(catalog)


# -- what follows a commit


def _adding(manifest: ManifestCatalog, name: str) -> Edit:
    return AddTable(as_row(manifest.place(("lake", name), {})))


def test_what_follows_is_done_once_for_all_who_were_let_in(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    manifest = _manifest(catalog)
    _declare(catalog, "lake", "t07")
    calls: list[list[str]] = []
    answers: dict[str, str] = {}

    def work(wanted: Sequence[tuple[str, Any]]) -> list[str]:
        calls.append([argument for argument, _ in wanted])
        return [f"{argument} is there" for argument, _ in wanted]

    def add(name: str) -> None:
        answers[name] = manifest.submit(_adding(manifest, name), Then(work, name)).answer

    names = [f"t{at:02}" for at in range(16)]
    outcomes = _at_once(*(partial(add, name) for name in names))

    assert [type(outcome) for outcome in outcomes if outcome] == [TableAlreadyExistsError]
    assert answers == {name: f"{name} is there" for name in names if name != "t07"}
    assert sorted(name for call in calls for name in call) == sorted(answers)
    assert len(calls) < 15


def test_who_wants_what_fails_hears_of_it_and_the_others_do_not(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    manifest = _manifest(catalog)

    def work(wanted: Sequence[tuple[str, Any]]) -> list[str]:
        raise ThrottlingError("too much follows")

    outcomes = _at_once(
        lambda: manifest.submit(_adding(manifest, "one"), Then(work, "one")),
        lambda: _declare(catalog, "lake", "two"),
    )

    assert [type(outcome) for outcome in outcomes] == [ThrottlingError, type(None)]
    assert _tables(catalog) == ["one", "two"]


def test_the_next_group_commits_while_the_last_is_finished(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    manifest = _manifest(catalog)
    begun, others_done = threading.Event(), threading.Event()

    def work(wanted: Sequence[tuple[str, Any]]) -> list[bool]:
        begun.set()
        return [others_done.wait(300)]

    def follow() -> None:
        begun.wait(300)
        _declare(catalog, "lake", "two")
        others_done.set()

    answers: list[Any] = []
    outcomes = _at_once(
        lambda: answers.append(manifest.submit(_adding(manifest, "one"), Then(work, "one")).answer),
        follow,
    )

    assert outcomes == [None, None]
    assert answers == [True]


def test_an_interruption_of_what_follows_is_told_to_all(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    manifest = _manifest(catalog)

    def work(wanted: Sequence[tuple[str, Any]]) -> list[str]:
        raise KeyboardInterrupt

    def add(name: str) -> None:
        manifest.submit(_adding(manifest, name), Then(work, name))

    outcomes = _at_once(*(partial(add, f"t{at}") for at in range(8)))

    assert {type(outcome) for outcome in outcomes} <= {KeyboardInterrupt, ServiceUnavailableError}
    assert KeyboardInterrupt in {type(outcome) for outcome in outcomes}
    _declare(catalog, "lake", "after")
    assert len(_tables(catalog)) == 9


def test_whose_turn_did_not_come_after_an_interruption_is_told_so(
    catalog: tiltyard.DirectoryNamespace,
) -> None:
    manifest = _manifest(catalog)
    committer = manifest.committer
    begun = threading.Event()

    def leading(_: Draft) -> Change:
        begun.set()
        while committer.waiting < 2:
            threading.Event().wait(0.001)
        return Change()

    def interrupted(wanted: Sequence[tuple[str, Any]]) -> list[str]:
        raise KeyboardInterrupt

    def add(name: str, work: Any) -> str:
        begun.wait(30)
        while name == "second" and not committer.waiting:
            threading.Event().wait(0.001)
        return str(manifest.submit(_adding(manifest, name), Then(work, name)).answer)

    outcomes = _at_once(
        lambda: manifest.submit(Act(leading)),
        lambda: add("first", interrupted),
        lambda: add("second", lambda wanted: [argument for argument, _ in wanted]),
    )

    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [type(None), KeyboardInterrupt, ServiceUnavailableError]
    assert _tables(catalog) == ["first", "second"]
