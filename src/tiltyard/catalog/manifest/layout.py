"""Which fragments a commit of the manifest keeps, and which rows it writes anew.

A row is removed by rewriting the fragment that holds it, so fragments have to be small; every
reader opens all of them, so they have to be few. New rows pull in the fragments that are no
larger than what is being written anyway, like the digits of a counter: their number grows with
the logarithm of the rows, and each row is rewritten about as often.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.rows import to_arrow
from tiltyard.catalog.manifest.snapshot import FragmentRows, ManifestSnapshot
from tiltyard.catalog.pylance import Staged

SMALLEST_FRAGMENT = 4096
FULL_FRAGMENTS = 8
MOST_FRAGMENTS = 48


@dataclass(frozen=True, slots=True)
class FragmentPlan:
    """Positions of the fragments to keep and of those to rewrite; rows of a new fragment."""

    keep: tuple[int, ...]
    rewrite: tuple[int, ...]
    fragment_rows: int


def plan(sizes: Sequence[int], forced: Collection[int], added: int) -> FragmentPlan:
    """Plan a commit to fragments of these `sizes`, of which `forced` must go, of `added` rows."""
    total = sum(sizes) + added
    fragment_rows = max(SMALLEST_FRAGMENT, -(-total // FULL_FRAGMENTS))
    written = added + sum(sizes[at] for at in forced)
    rewrite = set(forced)
    kept = sorted((at for at in range(len(sizes)) if at not in rewrite), key=sizes.__getitem__)
    fragments = len(kept)
    for at in kept:
        is_full = sizes[at] > fragment_rows // 2
        too_many = fragments + -(-written // fragment_rows) > MOST_FRAGMENTS
        if not too_many and (is_full or sizes[at] > written):
            break
        rewrite.add(at)
        written += sizes[at]
        fragments -= 1
    keep = tuple(at for at in range(len(sizes)) if at not in rewrite)
    return FragmentPlan(keep, tuple(sorted(rewrite)), fragment_rows)


def lay_out(
    draft: Draft, schema: pa.Schema, *, anew: bool = False
) -> tuple[FragmentPlan, pa.Table]:
    """The plan of a draft's commit, and the rows to write: new ones, and those of the fragments
    that are not kept. With `anew` none is kept."""
    fragments = draft.base.fragments
    removed: dict[int, list[int]] = {}
    for identifier in draft.removed:
        for at, fragment in enumerate(fragments):
            position = fragment.find(identifier)
            if position is not None:
                removed.setdefault(at, []).append(position)
    forced = set(removed) | {
        at
        for at, fragment in enumerate(fragments)
        if anew or fragment.metadata.deletion_file is not None
    }
    planned = plan([len(fragment) for fragment in fragments], forced, len(draft.added))
    pieces = [to_arrow(draft.added.values(), schema)]
    for at in planned.rewrite:
        rows = fragments[at].rows
        if at in removed:
            kept = np.ones(len(rows), dtype=bool)
            kept[removed[at]] = False
            rows = rows.filter(pa.array(kept))
        pieces.append(rows if rows.schema == schema else rows.cast(schema))
    rows = pa.concat_tables(pieces).combine_chunks()
    return planned, rows if len(rows) == 1 else rows.take(pc.sort_indices(rows["object_id"]))


def written_fragments(staged: Staged, rows: pa.Table) -> list[FragmentRows]:
    """What was written, as it would be read back."""
    fragments, start = [], 0
    for fragment in staged.fragments:
        fragments.append(FragmentRows(fragment, rows.slice(start, fragment.physical_rows)))
        start += fragment.physical_rows
    return fragments


def is_scattered(snapshot: ManifestSnapshot) -> bool:
    """Whether rows are in more fragments than a plan for all of them would make, or some of them
    are only marked as deleted."""
    sizes = [len(fragment) for fragment in snapshot.fragments]
    fewest = -(-sum(sizes) // plan(sizes, range(len(sizes)), 0).fragment_rows)
    return len(sizes) > max(fewest, 1) or any(
        fragment.metadata.deletion_file is not None for fragment in snapshot.fragments
    )
