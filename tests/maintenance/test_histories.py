"""Whatever happened to a table, a clean-up removes what a plain model says, and nothing else: each
version that stays reads as it did, each branch too, and no file is left that nothing refers to."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from unittest import mock

import lance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tiltyard
from tests.behaviours.calls import create, drop
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import (
    COMPATIBLE,
    DIRECTORY,
    MANAGED,
    Kind,
    ManualClock,
    files,
    home,
    ids,
    rows,
    to_version,
)
from tiltyard import DirectoryNamespace
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import SYSTEM_CLOCK, Clock
from tiltyard.maintenance.policy import CleanupPolicy

VERBS = ("append", "append", "delete", "update", "index", "optimize", "tag", "untag", "branch")
LATER_VERBS = ("write to branch", "restore", "age", "age", "drop", "cleanup", "cleanup")

steps = st.lists(
    st.tuples(st.sampled_from(VERBS + LATER_VERBS), st.integers(0, 99)), min_size=4, max_size=14
)
policies = st.builds(
    CleanupPolicy,
    keep_versions=st.integers(1, 5),
    older_than=st.sampled_from([None, "1d", "3d"]),
    allow_below_recovery_floor=st.just(True),
    branches=st.booleans(),
) | st.builds(CleanupPolicy, older_than=st.sampled_from(["1d", "3d"]), branches=st.booleans())


@dataclass
class Line:
    """One branch in plain words: versions with their rows and ages."""

    versions: dict[int, Counter[int]] = field(default_factory=dict)
    made_ms: dict[int, int] = field(default_factory=dict)

    def clean_up(
        self, policy: CleanupPolicy, referred: Iterable[int], now_ms: int, min_age_ms: int
    ) -> set[int]:
        """Forget what the policy lets go, and say what that was."""
        newest = sorted(self.versions, reverse=True)
        stay = {newest[0], *newest[: policy.keep_versions or 0], *referred}
        following = dict(pairwise(sorted(self.versions)))
        gone = {
            version
            for version in self.versions.keys() - stay
            if now_ms - self.made_ms[version] >= policy.older_than_ms
            and now_ms - self.made_ms[following[version]] >= min_age_ms
        }
        for version in gone:
            del self.versions[version]
        return gone


@dataclass
class Model:
    """What a table is: its main branch (None) and the others, tags and where branches begin."""

    lines: dict[str | None, Line] = field(default_factory=lambda: {None: Line()})
    tags: dict[str, int] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)

    @property
    def branches(self) -> list[str]:
        return sorted(branch for branch in self.lines if branch is not None)

    @property
    def count(self) -> int:
        return sum(len(line.versions) for line in self.lines.values())

    def clean_up(self, policy: CleanupPolicy, now_ms: int, min_age_ms: int) -> int:
        """Forget what the policy lets go, and say how many versions that were."""
        referred = {*self.tags.values(), *self.bases.values()}
        gone = self.lines[None].clean_up(policy, referred, now_ms, min_age_ms)
        others = self.branches if policy.branches else []
        return len(gone) + sum(
            len(self.lines[branch].clean_up(policy, (), now_ms, min_age_ms)) for branch in others
        )


class Story:
    """A table and its model, changed together."""

    def __init__(self, kind: Kind, root: Path, clock: ManualClock, policy: CleanupPolicy) -> None:
        self.root, self.clock, self.policy = root, clock, policy
        self.catalog: DirectoryNamespace = tiltyard.connect(root, **kind.properties)
        if kind.managed:
            self.catalog.versions.manage()
        self.model = Model()
        self._fresh = 1000
        create(self.catalog, "t", data=rows(*range(10)))
        self._look()

    def step(self, verb: str, number: int) -> None:
        model, dataset = self.model, to_change(self.catalog, "t")
        known = sorted(model.lines[None].versions)
        chosen = known[number % len(known)]
        match verb:
            case "append":
                dataset.insert(rows(*self._new(2)))
            case "delete":
                dataset.delete(f"id % 7 = {number % 7}")
            case "update":
                dataset.update({"text": "'changed'"}, where=f"id % 5 = {number % 5}")
            case "index":
                dataset.create_scalar_index("id", "BTREE", replace=True)
            case "optimize":
                self.catalog.maintenance.optimize_table(["t"])
            case "tag":
                name = f"tag{number}"
                if name not in model.tags:
                    dataset.tags.create(name, chosen)
                    model.tags[name] = chosen
            case "untag" if model.tags:
                name = sorted(model.tags)[number % len(model.tags)]
                dataset.tags.delete(name)
                del model.tags[name]
            case "branch" if len(model.bases) < 2 and f"b{number}" not in model.bases:
                dataset.create_branch(f"b{number}", chosen)
                model.bases[f"b{number}"] = chosen
                model.lines[f"b{number}"] = Line()
            case "write to branch" if model.branches:
                branch = self._open(model.branches[number % len(model.branches)])
                branch.insert(rows(*self._new(1)))
            case "restore":
                operation = lance.LanceOperation.Restore(chosen)
                lance.LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))
            case "age":
                self.clock.pass_days(1 + number % 3)
            case "drop":
                drop(self.catalog, "t")
                self.catalog.hold_table(["t"])
                assert self.catalog.maintenance.cleanup_all_tables(self.policy) == []
                self.catalog.release_table(["t"])
                self.catalog.undrop_table(["t"])
            case "cleanup":
                self._clean_up()
        self._look()

    def _clean_up(self) -> None:
        gone = self.model.clean_up(self.policy, self.clock.now_ms(), 3_600_000)
        planned = self.catalog.maintenance.cleanup_table(["t"], self.policy, dry_run=True)
        row = self.catalog.maintenance.cleanup_table(["t"], self.policy)
        assert row == planned
        assert row.versions_removed == gone
        assert row.versions_kept == self.model.count

    def check(self) -> None:
        self._clean_up()
        needed: set[str] = set()
        for branch, line in self.model.lines.items():
            assert {file.version for file in self._every(branch)} == line.versions.keys(), branch
            for version, expected in line.versions.items():
                dataset = self._open(branch, version)
                assert ids(dataset) == expected, (branch, version)
                assert dataset.count_rows("id = 3") == expected[3], "by the index, if there is one"
                needed |= _files(dataset)
        present = {file for file in files(home(self.catalog, "t")) if "data/" in file}
        assert {file.rpartition("/")[2] for file in present} <= needed

    def _every(self, branch: str | None) -> Sequence[VersionFile]:
        versions = self.catalog.services.versions
        return versions.every(("t",)) if branch is None else versions.visible(("t",), branch)

    def _open(self, branch: str | None, version: int | None = None) -> lance.LanceDataset:
        if branch is None and version is not None:
            return to_version(self.catalog, "t", version)
        return to_change(self.catalog, "t").checkout_version((branch, version))

    def _new(self, count: int) -> list[int]:
        self._fresh += count
        return list(range(self._fresh - count, self._fresh))

    def _look(self) -> None:
        """Note the versions that came; their files are as old as the test's clock says."""
        for branch, line in self.model.lines.items():
            for file in self._every(branch):
                if file.version not in line.made_ms:
                    now_ms = self.clock.now_ms()
                    line.versions[file.version] = ids(self._open(branch, file.version))
                    line.made_ms[file.version] = now_ms
                    os.utime(self.root / file.key, (now_ms / 1000, now_ms / 1000))


def _files(dataset: lance.LanceDataset) -> set[str]:
    return {file.path for fragment in dataset.get_fragments() for file in fragment.data_files()}


@pytest.mark.parametrize("kind", [DIRECTORY, COMPATIBLE, MANAGED], ids=str)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(history=steps, policy=policies)
def test_a_clean_up_does_what_the_model_says(
    kind: Kind, history: list[tuple[str, int]], policy: CleanupPolicy
) -> None:
    _run(kind, history, policy)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [DIRECTORY, COMPATIBLE, MANAGED], ids=str)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=steps, policy=policies)
def test_many_clean_ups_do_what_the_model_says(
    kind: Kind, history: list[tuple[str, int]], policy: CleanupPolicy
) -> None:
    _run(kind, history, policy)


def _run(kind: Kind, history: list[tuple[str, int]], policy: CleanupPolicy) -> None:
    clock = ManualClock()
    stepped = Clock(clock.now_ms, SYSTEM_CLOCK.token)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("tiltyard.clock.SYSTEM_CLOCK", stepped),
    ):
        story = Story(kind, Path(folder) / "lake", clock, policy)
        for verb, number in history:
            story.step(verb, number)
        clock.pass_days(2)
        story.check()
