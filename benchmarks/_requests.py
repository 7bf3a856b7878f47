"""What each operation costs on an S3 server, in requests, warm: counted at a proxy on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import lance
import lance_namespace as api

from benchmarks import _catalogs as catalogs
from benchmarks.measure import Count, show_counts
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import FaultProxy
from tests.kit.servers import ministack

SIZES = (10, 10_000)


@dataclass(frozen=True)
class Step:
    """An operation, and how many requests it may take; None: no more than the peer."""

    name: str
    act: Callable[[api.LanceNamespace], object]
    goal: int | None


def _steps(
    listing: int,
    finding: int,
    declare: int | None,
    create: int | None,
    drop: int | None,
    namespace: int | None,
) -> list[Step]:
    """In an order in which each has what it needs; `namespace` 0 leaves namespaces out."""
    steps = [
        Step("list_tables", catalogs.list_tables, listing),
        Step("describe_table", lambda c: catalogs.describe(c, "warm_a"), finding),
        Step("table_exists", lambda c: catalogs.exists(c, "warm_a"), finding),
        Step("declare_table", lambda c: catalogs.declare(c, "declared"), declare),
        Step("create_table", lambda c: catalogs.create(c, "created"), create),
        Step("drop_table", lambda c: catalogs.drop(c, "created"), drop),
    ]
    if namespace != 0:
        steps.append(
            Step("create_namespace", lambda c: catalogs.create_namespace(c, "made"), namespace)
        )
    return steps


def count_requests(*, quick: bool) -> int:
    """Print one table per mode and size; returns how many counts miss their goal."""
    behind = 0
    with ministack() as server, FaultProxy(server.endpoint) as proxy:
        bench = _Bench(server, proxy)
        data = bench.data_alone()
        behind += bench.show("V1", catalogs.V1, _steps(1, 2, 2, None, 4, 0), 0)
        for size in SIZES[:1] if quick else SIZES:
            behind += bench.show("V2", catalogs.V2, _steps(1, 1, 5, 7 + data, 6, 5), size)
        both = _steps(2, 3, None, None, None, 5)
        behind += bench.show("compatibility", catalogs.COMPATIBILITY, both, SIZES[0])
    return behind


class _Bench:
    def __init__(self, server: S3Server, proxy: FaultProxy) -> None:
        self._server = server
        self._proxy = proxy
        self._storage = server.through(proxy.url).storage_options()

    def data_alone(self) -> int:
        """What Lance itself needs to write the rows of a new table."""
        uri = f"{self._server.new_root()}/alone.lance"
        with self._proxy.recording() as made:
            lance.write_dataset(catalogs.ROWS, uri, storage_options=self._storage)
        return len(made)

    def show(self, title: str, mode: Mapping[str, str], steps: Sequence[Step], size: int) -> int:
        ours = self._counts(catalogs.open_ours, mode, steps, size)
        theirs = self._counts(catalogs.open_theirs, mode, steps, size)
        counts = [
            Count(step.name, mine, other, other if step.goal is None else step.goal)
            for step, mine, other in zip(steps, ours, theirs, strict=True)
        ]
        size_text = f", {size:,} rows" if size else ""
        return show_counts(f"Requests on S3: {title}{size_text}", counts)

    def _counts(
        self,
        opened: Callable[..., api.LanceNamespace],
        mode: Mapping[str, str],
        steps: Sequence[Step],
        size: int,
    ) -> list[int]:
        root = self._server.new_root()
        if size:
            catalogs.write_manifest(root, size, self._storage)
        client = opened(root, mode, self._storage)
        # What only a first call pays is not what is asked here.
        catalogs.create(client, "warm_a")
        catalogs.declare(client, "warm_b")
        catalogs.drop(client, "warm_b")
        catalogs.list_tables(client)
        return [self._count(client, step) for step in steps]

    def _count(self, client: api.LanceNamespace, step: Step) -> int:
        with self._proxy.recording() as made:
            step.act(client)
        return len(made)
