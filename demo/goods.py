"""A small shop: its products with made-up embeddings, its orders, its stock, its old prices."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

DIMENSIONS = 16
_KINDS = {
    "lamp": ("Desk lamp", "Floor lamp", "Reading lamp", "Paper lantern"),
    "chair": ("Dining chair", "Armchair", "Rocking chair", "Bar stool"),
    "mug": ("Tea mug", "Espresso cup", "Travel mug", "Soup bowl"),
    "rug": ("Wool rug", "Bath mat", "Hall runner", "Doormat"),
}
_STYLES = ("Plain", "Oak", "Blue", "Vintage", "Small")


def products(series: int = 1) -> pa.Table:
    """Twenty products of each kind, in so many series. Things of one kind have vectors that point
    the same way."""
    random = np.random.default_rng(seed=7)
    names, kinds, vectors = [], [], []
    for kind, goods in _KINDS.items():
        direction = random.normal(size=DIMENSIONS)
        for good in goods:
            shape = direction + 0.4 * random.normal(size=DIMENSIONS)
            for number, style in itertools.product(range(series), _STYLES):
                names.append(f"{style} {good.lower()}" + (f" no. {number}" if number else ""))
                kinds.append(kind)
                vectors.append(shape + 0.2 * random.normal(size=DIMENSIONS))
    flat = pa.array(np.concatenate(vectors).astype(np.float32))
    prices = np.round(random.uniform(4, 180, size=len(names)), 2)
    return pa.table(
        {
            "sku": [f"P{number:04d}" for number in range(1, len(names) + 1)],
            "name": names,
            "kind": kinds,
            "price": prices,
            "embedding": pa.FixedSizeListArray.from_arrays(flat, DIMENSIONS),
        }
    )


def orders(goods: pa.Table) -> str:
    """Two hundred orders, as the CSV file that a shop would have."""
    random = np.random.default_rng(seed=8)
    skus = goods["sku"].to_pylist()
    rows = zip(random.choice(skus, size=200), random.integers(1, 6, size=200), strict=True)
    lines = (f"{order},{sku},{pieces}\n" for order, (sku, pieces) in enumerate(rows, 1))
    return "order,sku,pieces\n" + "".join(lines)


def old_prices(goods: pa.Table) -> str:
    """The price list of last year, a table that nobody needs any more."""
    rows = zip(goods["sku"].to_pylist(), goods["price"].to_pylist(), strict=True)
    return "sku,price\n" + "".join(f"{sku},{price * 0.9:.2f}\n" for sku, price in rows)


def stock(goods: pa.Table, counted_by: str) -> str:
    """One person's count of the stock; no two people agree."""
    random = np.random.default_rng(seed=len(counted_by))
    skus = goods["sku"].to_pylist()[:3]
    pieces = random.integers(2, 40, size=len(skus))
    lines = (f"{sku},{count},{counted_by}\n" for sku, count in zip(skus, pieces, strict=True))
    return "sku,pieces,counted_by\n" + "".join(lines)
