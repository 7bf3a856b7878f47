"""The twins behave as what they stand for: the same cases, with plain objects and with Lance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create
from tests.simulation.actors import DIRECTORY, NO_WAIT, Tokens, open_services
from tests.simulation.datasets import APPEND
from tests.simulation.files import PlainFiles
from tests.simulation.register import Register
from tiltyard.catalog import version_files
from tiltyard.catalog.base import CreateMode, DropTerms
from tiltyard.catalog.manifest.committer import Committer
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import AddTable, DropTable, Edit, RenameTable, UndropTable
from tiltyard.catalog.manifest.rows import TABLE, Row
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.pylance import FAILURES, Lance, LostRaceError
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import TableAlreadyExistsError, TiltyardError
from tiltyard.lifecycle.recreation import FENCE
from tiltyard.namespace.services import Services
from tiltyard.settings import Settings
from tiltyard.store import MemoryStore, NotThere, Store, open_store
from tiltyard.tables.files import LanceFiles
from tiltyard.versions.base import NewVersion
from tiltyard.versions.retention import branch_names

LOCATION = "t.lance"
ROWS = pa.table({"x": [1, 2, 3]})


class Case:
    """Files, the store below them, and something to write."""

    def __init__(self, files: Any, store: Store, content: Any) -> None:
        self.files = files
        self.store = store
        self.content = content

    def write(self, base: int, nonce: str = "n") -> int:
        version: int = self.files.commit(self.files.stage(LOCATION, self.content, base), nonce)
        return version

    def latest(self) -> int:
        newest = version_files.latest(self.store, LOCATION)
        return newest.version if newest else 0

    def forget_versions(self) -> None:
        self.store.delete_many([entry.key for entry in self.store.walk(f"{LOCATION}/_versions")])


@pytest.fixture(params=["plain", "lance"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    if request.param == "plain":
        store = MemoryStore()
        return Case(PlainFiles(store, Clock(lambda: 0, Tokens("a"))), store, "a")
    settings = Settings.from_properties({"root": str(tmp_path)})
    disk = open_store(settings)
    return Case(LanceFiles(Lance(settings), disk), disk, ROWS)


def test_the_first_version_is_1_and_tells_whose_it_is(case: Case) -> None:
    assert case.write(0, "mine") == 1
    assert case.files.written_by(LOCATION, 1) == "mine"
    with pytest.raises(NotThere):
        case.files.written_by(LOCATION, 2)


def test_a_first_version_over_another_loses(case: Case) -> None:
    case.write(0)
    with pytest.raises(LostRaceError):
        case.write(0)


def test_of_two_first_versions_that_were_staged_one_wins(case: Case) -> None:
    one, other = (case.files.stage(LOCATION, case.content, 0) for _ in range(2))
    case.files.commit(one, "one")
    with pytest.raises(LostRaceError):
        case.files.commit(other, "other")
    assert case.files.written_by(LOCATION, 1) == "one"


def test_a_commit_never_rebases(case: Case) -> None:
    case.write(0)
    one, other = (case.files.stage(LOCATION, case.content, 1) for _ in range(2))
    assert case.files.commit(one, "one") == 2
    with pytest.raises(LostRaceError):
        case.files.commit(other, "other")
    assert case.latest() == 2


def test_staging_onto_a_version_that_is_gone_says_so(case: Case) -> None:
    case.write(0)
    with pytest.raises(NotThere):
        case.files.stage(LOCATION, case.content, 2)


def test_over_a_directory_that_lost_its_versions_counting_may_begin_again(case: Case) -> None:
    """Why a recreation checks the version that it wrote. The twin does the worst that was seen:
    Lance begins at 1 when it has to look for the newest version, and goes on when it has it
    open."""
    case.write(0)
    case.write(1)
    staged = case.files.stage(LOCATION, case.content, 2)
    case.forget_versions()
    assert case.files.commit(staged, "late") in (1, 3)


def test_a_fence_takes_the_next_number_and_shuts_out_who_wanted_it(case: Case) -> None:
    case.write(0)
    late = case.files.stage(LOCATION, case.content, 1)
    case.files.fence(LOCATION, 1)
    assert case.files.written_by(LOCATION, 2) == FENCE
    with pytest.raises(LostRaceError):
        case.files.commit(late, "late")
    assert case.latest() == 2


def test_a_fence_behind_a_version_that_is_there_leaves_it(
    case: Case, request: pytest.FixtureRequest
) -> None:
    if isinstance(case.files, LanceFiles):
        reason = "the fence is a commit that rebases: it adds a version on top"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    case.write(0)
    case.write(1, "mine")
    case.files.fence(LOCATION, 1)
    assert case.files.written_by(LOCATION, 2) == "mine"
    assert case.latest() == 2


def test_a_fence_over_a_base_that_is_gone_says_so(case: Case) -> None:
    case.write(0)
    case.forget_versions()
    with pytest.raises(NotThere):
        case.files.fence(LOCATION, 1)


# -- the register


# -- datasets


class Table:
    """A table of three versions, and who appends to it."""

    def __init__(self, services: Services, append: Callable[[Any], object]) -> None:
        self.services = services
        self.append = append
        for _ in range(2):
            with self.open() as dataset:
                append(dataset)

    def open(self) -> AbstractContextManager[Any]:
        return self.services.access.change(self.services.access.find(("t",)))

    def latest(self) -> int:
        newest = self.services.versions.latest(("t",))
        return newest.version if newest else 0


@pytest.fixture(params=["plain", "lance"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "plain":
        services: Services = open_services(
            DIRECTORY, MemoryStore(), Clock(lambda: 0, Tokens("a")), retry=NO_WAIT
        )
        services.creation.create(("t",), "a", CreateMode.CREATE, {})
        return Table(services, lambda dataset: dataset.commit(APPEND))
    catalog = tiltyard.connect(tmp_path, manifest_enabled=False)
    create(catalog, "t", data=ROWS)
    return Table(catalog.services, lambda dataset: dataset.insert(ROWS))


def test_appends_go_well_with_each_other_and_not_with_a_restore(table: Table) -> None:
    with table.open() as dataset:
        with table.open() as other:
            table.append(other)
        table.append(dataset)
    assert table.latest() == 5
    with table.open() as dataset:
        table.services.references.restore(("t",), 1, None)
        with pytest.raises((TiltyardError, *FAILURES)):
            table.append(dataset)
    assert table.latest() == 6


def test_a_restore_goes_well_with_everything(table: Table) -> None:
    with table.open() as dataset:
        with table.open() as other:
            table.append(other)
        table.services.references.restore(("t",), 1, None)
        assert table.services.context.lance.restore(dataset, 2).version == 6


def test_a_branch_is_noted_after_its_first_version_is_there(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = table.services.versions.create
    noted: list[list[str]] = []

    def publishing(new: NewVersion) -> VersionFile:
        created = publish(new)
        noted.append(branch_names(table.services.context.store, LOCATION))
        return created

    monkeypatch.setattr(table.services.versions, "create", publishing)
    table.services.references.create_branch(("t",), "side", version=2, origin=None)
    assert noted == [[]]
    assert branch_names(table.services.context.store, LOCATION) == ["side"]
    branched = table.services.versions.latest(("t",), "side")
    assert branched is not None
    assert branched.version == 2


class Registers:
    """Two processes that share one manifest."""

    def __init__(self, one: Any, other: Any) -> None:
        self.one = one
        self.other = other

    def commit(self, edit: Edit) -> Any:
        return Committer(self.one, NO_WAIT).submit(edit).answer

    def seen(self) -> list[tuple[str, str | None, dict[str, str]]]:
        snapshot = self.other.read()
        every = [*snapshot.below(("__trash",)), *filter(None, map(snapshot.get, ("t", "u")))]
        return sorted((row.object_id, row.location, dict(row.metadata)) for row in every)


@pytest.fixture(params=["plain", "lance"])
def registers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registers]:
    if request.param == "plain":
        store = MemoryStore()
        clocks = [Clock(lambda: 0, Tokens(letter)) for letter in "ab"]
        yield Registers(*(Register(store, clock) for clock in clocks))
        return
    settings = Settings.from_properties({"root": str(tmp_path)})
    disk = open_store(settings)
    yield Registers(*(ManifestTable(disk, Lance(settings), settings, NO_WAIT) for _ in range(2)))


def _row(name: str, location: str = "00000001_t") -> Row:
    return Row(name, TABLE, location, {"k": "v"})


def test_a_commit_is_seen_by_the_other(registers: Registers) -> None:
    registers.commit(AddTable(_row("t")))
    assert registers.seen() == [("t", "00000001_t", {"k": "v"})]
    assert registers.other.read().get("u") is None


def test_of_two_drafts_of_one_version_one_wins(registers: Registers) -> None:
    registers.commit(AddTable(_row("t")))
    drafts = [Draft(register.read_for_writing()) for register in (registers.one, registers.other)]
    for draft in drafts:
        draft.apply(RenameTable(("t",), ("u",), "00000001_t").apply(draft))
    registers.one.commit(drafts[0])
    with pytest.raises(LostRaceError):
        registers.other.commit(drafts[1])
    assert [row[0] for row in registers.seen()] == ["u"]


def test_a_life_in_the_trash_is_the_same_in_both(registers: Registers) -> None:
    registers.commit(AddTable(_row("t")))
    terms = DropTerms(ttl_ms=1_000, by="me")
    registers.commit(DropTable(("t",), "00000001_t", "0" * 16, terms, 1, 5))
    trashed = registers.other.read().last_trashed("t")
    assert trashed is not None
    assert trashed.location == "00000001_t"
    registers.commit(AddTable(_row("t", "00000002_t")))
    with pytest.raises(TableAlreadyExistsError):
        registers.commit(UndropTable(("t",), "0" * 16, ("t",)))
    registers.commit(UndropTable(("t",), "0" * 16, ("u",)))
    assert [row[:2] for row in registers.seen()] == [("t", "00000002_t"), ("u", "00000001_t")]


def test_a_location_is_owned_once_in_both(registers: Registers) -> None:
    registers.commit(AddTable(_row("t")))
    draft = Draft(registers.other.read_for_writing())
    assert draft.owner("00000001_t") == "t"
    assert draft.owner("00000002_t") is None
    draft.apply(RenameTable(("t",), ("u",), "00000001_t").apply(draft))
    registers.other.commit(draft)
    assert Draft(registers.one.read_for_writing()).owner("00000001_t") == "u"
