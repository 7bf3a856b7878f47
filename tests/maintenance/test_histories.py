"""Whatever happened to a table, a clean-up removes what a plain model says, and nothing else: each
version that stays reads as it did, each branch too, and no file is left that nothing refers to."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
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
from tests.maintenance.catalogs import (
    COMPATIBLE,
    DIRECTORY,
    MANAGED,
    Clock,
    Kind,
    files,
    ids,
    rows,
    to_change,
    to_version,
)
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.world import WORLD, World

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
) | st.builds(CleanupPolicy, older_than=st.sampled_from(["1d", "3d"]))


@dataclass
class Model:
    """What a table is, in plain words: versions with their rows and ages, tags, branches."""

    versions: dict[int, Counter[int]] = field(default_factory=dict)
    made_ms: dict[int, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)
    branches: dict[str, Counter[int]] = field(default_factory=dict)

    @property
    def latest(self) -> int:
        return max(self.versions)

    def clean_up(self, policy: CleanupPolicy, now_ms: int, min_age_ms: int) -> set[int]:
        """Forget what the policy lets go, and say what that was."""
        newest = sorted(self.versions, reverse=True)[: policy.keep_versions or 1]
        stay = {self.latest, *newest, *self.tags.values(), *self.bases.values()}
        if policy.keep_versions is None:
            stay = {self.latest, *self.tags.values(), *self.bases.values()}
        following = dict(pairwise(sorted(self.versions)))
        gone = {
            each
            for each in self.versions.keys() - stay
            if now_ms - self.made_ms[each] >= policy.older_than_ms
            and now_ms - self.made_ms[following[each]] >= min_age_ms
        }
        for each in gone:
            del self.versions[each]
        return gone


class Story:
    """A table and its model, changed together."""

    def __init__(self, kind: Kind, root: Path, clock: Clock, policy: CleanupPolicy) -> None:
        self.root, self.clock, self.policy = root, clock, policy
        self.catalog: DirectoryNamespace = tiltyard.connect(root, **kind.properties)
        if kind.managed:
            self.catalog.manage_versions()
        self.model = Model()
        self._fresh = 1000
        create(self.catalog, "t", data=rows(*range(10)))
        self._look()

    def step(self, verb: str, number: int) -> None:
        model, dataset = self.model, to_change(self.catalog, "t")
        known = sorted(model.versions)
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
                self.catalog.optimize_table(["t"])
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
                model.branches[f"b{number}"] = model.versions[chosen]
            case "write to branch" if model.branches:
                name = sorted(model.branches)[number % len(model.branches)]
                new = self._new(1)
                self._branch(name).insert(rows(*new))
                model.branches[name] = model.branches[name] + Counter(new)
            case "restore":
                operation = lance.LanceOperation.Restore(chosen)
                lance.LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))
            case "age":
                self.clock.pass_days(1 + number % 3)
            case "drop":
                drop(self.catalog, "t")
                self.catalog.hold_table(["t"])
                assert self.catalog.cleanup_all_tables(self.policy) == []
                self.catalog.release_table(["t"])
                self.catalog.undrop_table(["t"])
            case "cleanup":
                self._clean_up()
        self._look()

    def _clean_up(self) -> None:
        gone = self.model.clean_up(self.policy, self.clock.now_ms(), 3_600_000)
        planned = self.catalog.cleanup_table(["t"], self.policy, dry_run=True)
        row = self.catalog.cleanup_table(["t"], self.policy)
        assert row == planned
        assert row.versions_removed == len(gone)
        assert row.versions_kept == len(self.model.versions)

    def check(self) -> None:
        self._clean_up()
        every = {each.version for each in self.catalog._versions.every(("t",))}
        assert every == self.model.versions.keys()
        needed: set[str] = set()
        for version, expected in self.model.versions.items():
            dataset = to_version(self.catalog, "t", version)
            assert ids(dataset) == expected, f"version {version}"
            assert dataset.count_rows("id = 3") == expected[3], "by the index, if there is one"
            needed |= _files(dataset)
        for name, expected in self.model.branches.items():
            assert ids(self._branch(name)) == expected, name
            needed |= _files(self._branch(name))
        location = self.catalog._catalog.find(("t",)).location
        present = {each for each in files(self.root / location) if each.startswith("data/")}
        assert present <= needed

    def _branch(self, name: str) -> lance.LanceDataset:
        return to_change(self.catalog, "t").checkout_version((name, None))

    def _new(self, count: int) -> list[int]:
        self._fresh += count
        return list(range(self._fresh - count, self._fresh))

    def _look(self) -> None:
        """Note the versions that came; their files are as old as the test's clock says."""
        for each in self.catalog._versions.every(("t",)):
            if each.version not in self.model.made_ms:
                now_ms = self.clock.now_ms()
                found = to_version(self.catalog, "t", each.version)
                self.model.versions[each.version] = ids(found)
                self.model.made_ms[each.version] = now_ms
                os.utime(self.root / each.key, (now_ms / 1000, now_ms / 1000))


def _files(dataset: lance.LanceDataset) -> set[str]:
    return {f"data/{file.path}" for each in dataset.get_fragments() for file in each.data_files()}


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
    clock = Clock()
    world = World(clock.now_ms, WORLD.token)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("tiltyard.namespace.rooms.WORLD", world),
    ):
        story = Story(kind, Path(folder) / "lake", clock, policy)
        for verb, number in history:
            story.step(verb, number)
        clock.pass_days(2)
        story.check()
