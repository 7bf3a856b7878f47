"""`python -m benchmarks.scale`: what catalog-sized work takes at sizes that nobody has at hand.

A small catalog in a bucket is measured for real: the requests, the bytes and the seconds of a
processor that each operation takes for one table, for one version, for one commit. A model turns
them into hours and money for a thousand to a million tables and a thousand million files, and says
what holds it up. What it assumes about the store, the cluster and the prices are options.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import lance_namespace as api
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

import tiltyard
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import FaultProxy, Request
from tests.kit.servers import ministack
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.tables import fragments
from tiltyard.tables.ledger import Loaded

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
FEW_VERSIONS, MORE_VERSIONS = 2, 12
ROWS_PER_COMMIT = 10_000
KEYS_PER_PAGE = 1_000
SIZES = (10**3, 10**4, 10**5, 10**6)
MANY_FILES = 10**9
# Listed, joined and sorted by Spark: 20,000 files/s on two cores, by benchmarks.jobs_data.
SECONDS_PER_FILE = 100e-6
WIDTH = 120


@dataclass(frozen=True)
class Assumptions:
    """What the model takes for given. Prices are those of S3 Standard in us-east-1, looked up in
    November 2026 (docs/scale.md says where), and of a core of an ordinary machine; bring your
    own."""

    cores: int = 64
    threads: int = 4  # requests that one core has under way
    read_seconds: float = 0.03  # one GET or HEAD
    write_seconds: float = 0.06  # one PUT, or one page of a listing
    usd_per_1000_reads: float = 0.0004
    usd_per_1000_writes: float = 0.005  # and listings; deletes are free
    usd_per_million_listed: float = 0.0025  # of a ready inventory
    usd_per_core_hour: float = 0.05
    versions: int = 10  # of a table
    files: int = 100  # of a table


@dataclass(frozen=True)
class Cost:
    """What something takes once."""

    reads: float = 0
    writes: float = 0
    bytes: float = 0
    seconds: float = 0  # of a processor

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(mine + theirs for mine, theirs in zip(self._all, other._all, strict=True)))

    def times(self, count: float) -> Cost:
        return Cost(*(each * count for each in self._all))

    @property
    def _all(self) -> tuple[float, ...]:
        return (self.reads, self.writes, self.bytes, self.seconds)


@dataclass(frozen=True)
class Measured:
    """What one table takes, one more version of it, and one commit of the catalog."""

    commit: Cost
    look: Cost
    count: Cost
    count_version: Cost
    refer: Cost
    refer_version: Cost
    optimize: Cost
    idle: Cost
    cleanup: Cost
    load: Cost
    page: Cost


# ---------------------------------------------------------------- measuring


class _Bench:
    def __init__(self, server: S3Server, proxy: FaultProxy) -> None:
        self._server = server
        self._proxy = proxy
        self._storage = server.through(proxy.url).storage_options()

    def opened(self, **properties: object) -> DirectoryNamespace:
        storage = {f"storage.{key}": value for key, value in self._storage.items()}
        return tiltyard.connect(self._server.new_root(), **storage, **properties)

    def cost(self, work: Callable[[], object]) -> Cost:
        with self._proxy.recording() as made:
            began = time.process_time()
            work()
            seconds = time.process_time() - began
        return Cost(
            sum(not _is_write(each) for each in made),
            sum(_is_write(request) for request in made if request.method != "DELETE"),
            sum(each.sent_bytes + each.received_bytes for each in made),
            seconds,
        )

    def measured(self) -> Measured:
        catalog = self.opened(dir_listing_enabled=False)
        few, more = _table(catalog, FEW_VERSIONS), _table(catalog, MORE_VERSIONS)
        catalog.maintenance.inventory_table(few)  # once for everything that happens only once
        counted = [
            self.cost(lambda id=id: catalog.maintenance.inventory_table(id)) for id in (few, more)
        ]
        referred = [self.cost(lambda id=id: _refer(catalog, id)) for id in (few, more)]
        commit = self.cost(lambda: catalog.declare_table(api.DeclareTableRequest(id=["declared"])))
        loaded = self.cost(lambda: _load(catalog, few))
        optimized = self.cost(lambda: catalog.maintenance.optimize_table(more))
        idle = self.cost(lambda: catalog.maintenance.optimize_table(more))
        policy = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)
        cleaned = self.cost(lambda: catalog.maintenance.cleanup_table(more, policy))
        old = self.opened(manifest_enabled=False)
        _table(old, 1)
        look = self.cost(lambda: old.services.migration.judge(old.services.migration.look()))
        return Measured(
            commit,
            look,
            *_sloped(*counted),
            *_sloped(*referred),
            optimized,
            idle,
            cleaned,
            loaded,
            Cost(writes=1, bytes=KEYS_PER_PAGE * 300, seconds=KEYS_PER_PAGE * SECONDS_PER_FILE),
        )


def _is_write(request: Request) -> bool:
    is_listing = request.method == "GET" and "list-type" in request.query
    return request.method in ("PUT", "POST", "DELETE") or is_listing


def _sloped(few: Cost, more: Cost) -> tuple[Cost, Cost]:
    """What a table takes without its versions, and each of them."""
    each = (more + few.times(-1)).times(1 / (MORE_VERSIONS - FEW_VERSIONS))
    each = Cost(*(max(0.0, value) for value in each._all))
    return few + each.times(-FEW_VERSIONS), each


def _table(catalog: DirectoryNamespace, versions: int) -> list[str]:
    name = [f"versions_{versions}"]
    for number in range(versions):
        pending = catalog.writes.begin(name, "append" if number else "create")
        written = fragments.write(pending, ROWS.to_reader())
        catalog.writes.finish(pending, written, ROWS.schema)
    return name


def _refer(catalog: DirectoryNamespace, id: Sequence[str]) -> None:
    units = catalog.services.orphans
    table = units.table(id[0])
    assert table is not None
    manifests, indexes = units.manifests(table)
    assert any(reference.files for reference in units.references(table, manifests, indexes, 0))


def _load(catalog: DirectoryNamespace, id: Sequence[str]) -> None:
    pending = catalog.writes.begin(id, "append")
    written = fragments.write(pending, ROWS.to_reader())
    assert catalog.writes.finish_load(pending, written, ROWS.schema, [Loaded("a", 1, "b")])


# ---------------------------------------------------------------- the model


@dataclass(frozen=True)
class Estimate:
    """What a job takes, and what holds it up."""

    requests: float
    hours: float
    usd: float
    bound: str


def jobs(measured: Measured, given: Assumptions) -> dict[str, Callable[[int], Estimate]]:
    """Every job, as a function of how many tables there are."""
    listed = Cost(writes=-(-given.files // KEYS_PER_PAGE), seconds=given.files * SECONDS_PER_FILE)
    refer = measured.refer + measured.refer_version.times(given.versions)
    count = measured.count + measured.count_version.times(given.versions)

    def each(cost: Cost) -> Callable[[int], Estimate]:
        return lambda size: estimate(measured, cost.times(size), 0, given)

    def migrate(size: int) -> Estimate:
        commits = -(-size // ROWS_PER_COMMIT)
        return estimate(measured, measured.look.times(size), commits, given)

    return {
        "inventory": each(count),
        "orphans": each(refer + listed),
        "optimize": each(measured.optimize),
        "optimize, nothing to do": each(measured.idle),
        "cleanup": each(measured.cleanup),
        "ingest, one commit each": each(measured.load),
        "migrate": migrate,
        "declare, one commit each": lambda size: estimate(measured, Cost(), size, given),
        "declare, 10,000 a commit": lambda size: estimate(
            measured, Cost(), -(-size // ROWS_PER_COMMIT), given
        ),
    }


def many_files(measured: Measured, given: Assumptions) -> dict[str, Estimate]:
    """A search for orphans among a thousand million files, of a million tables."""
    refer = (measured.refer + measured.refer_version.times(given.versions)).times(10**6)
    listed = measured.page.times(MANY_FILES / KEYS_PER_PAGE)
    ready = Cost(seconds=listed.seconds)
    price = MANY_FILES / 10**6 * given.usd_per_million_listed
    return {
        "orphans, 10^9 files listed": estimate(measured, refer + listed, 0, given),
        "the same, in an inventory": estimate(measured, refer + ready, 0, given, price),
    }


def estimate(
    measured: Measured, cost: Cost, commits: int, given: Assumptions, usd: float = 0
) -> Estimate:
    """Everything at once but commits to the manifest, which come one after the other."""

    def waiting(cost: Cost) -> float:
        return cost.reads * given.read_seconds + cost.writes * given.write_seconds

    times = {
        "requests": waiting(cost) / (given.cores * given.threads),
        "processors": cost.seconds / given.cores,
        "manifest commits": waiting(measured.commit.times(commits)),
    }
    bound = max(times, key=lambda each: times[each])
    cost = cost + measured.commit.times(commits)
    hours = max(times.values()) / 3600
    money = cost.reads / 1000 * given.usd_per_1000_reads
    money += cost.writes / 1000 * given.usd_per_1000_writes
    money += hours * (1 if commits else given.cores) * given.usd_per_core_hour
    return Estimate(cost.reads + cost.writes, hours, usd + money, bound)


# ---------------------------------------------------------------- showing


def main(given: Assumptions | None = None, *, quick: bool = False) -> int:
    """Measure, reckon, print. It is small as it is, so `quick` changes nothing."""
    given = given or Assumptions()
    with ministack() as server, FaultProxy(server.endpoint) as proxy:
        measured = _Bench(server, proxy).measured()
    table = _columns("Measured, for one", "operation", "reads", "writes", "bytes", "ms of a core")
    for field in fields(measured):
        cost: Cost = getattr(measured, field.name)
        name = field.name.replace("_", ", each ")
        numbers = (f"{cost.reads:.1f}", f"{cost.writes:.1f}", f"{cost.bytes:,.0f}")
        table.add_row(name, *numbers, f"{cost.seconds * 1000:.1f}")
    Console(width=WIDTH).print(table)
    title = f"{given.cores} cores; tables of {given.versions} versions and {given.files} files"
    sizes = [f"{size:,}" for size in SIZES]
    last = ("requests each", "USD at 10^6", "held up by")
    table = _columns(title, "job, at so many tables", *sizes, *last)
    for job, at in jobs(measured, given).items():
        most = at(SIZES[-1])
        times = [_time(at(size).hours) for size in SIZES]
        each = f"{most.requests / SIZES[-1]:.3g}"
        table.add_row(job, *times, each, f"{most.usd:,.2f}", most.bound)
    for job, most in many_files(measured, given).items():
        each = f"{most.requests / SIZES[-1]:.3g}"
        table.add_row(job, "", "", "", _time(most.hours), each, f"{most.usd:,.2f}", most.bound)
    Console(width=WIDTH).print(table)
    return 0


def _assumptions(arguments: Sequence[str] | None) -> Assumptions:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in fields(Assumptions):
        kind = type(field.default)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    return Assumptions(**vars(parser.parse_args(arguments)))


def _columns(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for number, name in enumerate(names):
        is_text = number in (0, len(names) - 1) and name != "ms of a core"
        table.add_column(name, justify="left" if is_text else "right")
    return table


def _time(hours: float) -> str:
    seconds = hours * 3600
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{hours:.1f} h"


if __name__ == "__main__":
    sys.exit(main(_assumptions(sys.argv[1:])))
