"""Which fragments a commit keeps and what it writes anew: a pure plan over sizes.

A row is removed by rewriting the fragment that holds it, so fragments have to be small; every
reader opens all of them, so they have to be few. New rows pull in the fragments that are no
larger than what is being written anyway, like the digits of a counter: their number grows with
the logarithm of the rows, and each row is rewritten about as often.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

SMALLEST_LEAF = 4096
LEAVES = 8
MOST_PARTS = 48


@dataclass(frozen=True, slots=True)
class Plan:
    """Positions of the parts to keep as they are and of those to rewrite; rows per new fragment."""

    keep: tuple[int, ...]
    rewrite: tuple[int, ...]
    leaf: int


def plan(sizes: Sequence[int], forced: Collection[int], added: int) -> Plan:
    """Lay out a commit: parts of these `sizes`, of which `forced` must go, and `added` new rows."""
    total = sum(sizes) + added
    leaf = max(SMALLEST_LEAF, -(-total // LEAVES))
    pool = added + sum(sizes[at] for at in forced)
    rewrite = set(forced)
    waiting = sorted((at for at in range(len(sizes)) if at not in rewrite), key=sizes.__getitem__)
    parts = len(waiting)
    for at in waiting:
        is_full = sizes[at] > leaf // 2
        too_many = parts + _leaves(pool, leaf) > MOST_PARTS
        if not too_many and (is_full or sizes[at] > pool):
            break
        rewrite.add(at)
        pool += sizes[at]
        parts -= 1
    keep = tuple(at for at in range(len(sizes)) if at not in rewrite)
    return Plan(keep, tuple(sorted(rewrite)), leaf)


def _leaves(rows: int, leaf: int) -> int:
    return -(-rows // leaf)
