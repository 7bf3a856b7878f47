"""Numbers about one version of a table: rows, bytes, fragments."""

from __future__ import annotations

import lance
from lance_namespace import GetTableStatsResponse
from lance_namespace_urllib3_client.models.fragment_stats import FragmentStats
from lance_namespace_urllib3_client.models.fragment_summary import FragmentSummary

# A fragment with fewer rows is worth compacting, as lancedb counts them.
SMALL_FRAGMENT_ROWS = 100_000


def statistics(dataset: lance.LanceDataset) -> GetTableStatsResponse:
    """Sizes come from the footers of the data files, everything else from the manifest."""
    rows = sorted(each.count_rows() for each in dataset.get_fragments())
    fields: list[object] = dataset.stats.data_stats().fields  # type: ignore[assignment]
    return GetTableStatsResponse(
        total_bytes=sum(each.bytes_on_disk for each in fields),  # type: ignore[attr-defined]
        num_rows=sum(rows),
        num_indices=len(dataset.describe_indices()),
        fragment_stats=FragmentStats(
            num_fragments=len(rows),
            num_small_fragments=sum(each < SMALL_FRAGMENT_ROWS for each in rows),
            lengths=FragmentSummary(
                min=rows[0] if rows else 0,
                max=rows[-1] if rows else 0,
                mean=sum(rows) // len(rows) if rows else 0,
                p25=_percentile(rows, 25),
                p50=_percentile(rows, 50),
                p75=_percentile(rows, 75),
                p99=_percentile(rows, 99),
            ),
        ),
    )


def _percentile(ordered: list[int], percent: int) -> int:
    """The value that so many percent do not exceed, by nearest rank."""
    if not ordered:
        return 0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
