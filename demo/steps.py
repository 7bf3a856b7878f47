"""The steps of the tour, in order. To add one, write a function and put it on the list below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.parquet as pq

from demo import goods
from demo.stage import CATALOG, FILES, Stage

# Who drops, for the trash to tell.
ADA = ("-p", "actor=ada")


@dataclass(frozen=True)
class Step:
    """A title and what happens under it."""

    title: str
    play: Callable[[Stage], None]


def _open(stage: Stage) -> None:
    stage.say(
        "A catalog is a directory, here or in a bucket. Opening one writes nothing; "
        "the directory appears with the first table."
    )
    stage.python("import lance, tiltyard", f'catalog = tiltyard.connect("{CATALOG}")')


def _write(stage: Stage) -> None:
    stage.variables["products"] = products = goods.products()
    stage.say(
        f"A shop has {products.num_rows} products, each with a vector of {goods.DIMENSIONS} "
        "numbers such as a model makes of a picture. Lance's own library writes them as a table, "
        "and asks the catalog where:"
    )
    stage.python(
        "stored = lance.write_dataset(",
        '    products, namespace_client=catalog, table_id=["products"]',
        ")",
    )
    stage.say("Tables can also come from files, on the command line:")
    for name, text in (("orders.csv", goods.orders), ("old_prices.csv", goods.old_prices)):
        (FILES / name).write_text(text(products))
        stage.shell("table", "create", name.removesuffix(".csv"), str(FILES / name))


def _ingest(stage: Stage) -> None:
    stage.variables["products"] = products = goods.products(series=25)
    folder = FILES / "products"
    folder.mkdir()
    for part in range(4):
        rows = products.slice(part * 500, 500)
        pq.write_table(rows, folder / f"part-{part}.parquet")
    (FILES / "orders.csv").write_text(goods.orders(products))
    (FILES / "old_prices.csv").write_text(goods.old_prices(products))
    stage.say(
        f"A shop has {products.num_rows:,} products, each with a vector of {goods.DIMENSIONS} "
        "numbers such as a model makes of a picture. They are in Parquet files, its orders in "
        "CSV. Namespaces are folders for tables, as deep as you like:"
    )
    stage.shell("ns", "create", "archive", "--set", "owner=accounting")
    stage.shell("ns", "create", "archive.2025")
    stage.say(
        "A job of Spark loads all of it, many files into many tables. Spark starts here, inside "
        "this program; on a cluster the command is the same."
    )
    load = (
        *("jobs", "ingest"),
        f"products={folder}/*.parquet",
        f"archive.2025.orders={FILES}/orders.csv",
        f"old_prices={FILES}/old_prices.csv",
    )
    stage.shell(*load)
    stage.say(
        "What was loaded is remembered by the tables themselves, in the same commits. So the "
        "command can run every hour, or again after a crash, and no row comes twice:"
    )
    stage.shell(*load)


def _look(stage: Stage) -> None:
    stage.say("Which tables are there?")
    stage.shell("table", "list")
    stage.say("What is in one of them?")
    stage.shell("table", "describe", "products")
    stage.say("And its first rows? Vectors are shortened for the eye; -o json has them in full.")
    stage.shell("table", "head", "products", "-n", "3")


def _search(stage: Stage) -> None:
    stage.say(
        "Any Lance client finds a table through the catalog, by its name. This is what the vectors "
        "are for: the products most like the first one."
    )
    stage.python(
        'table = lance.dataset(namespace_client=catalog, table_id=["products"])',
        'lamp = products["embedding"][0].values',
        "alike = table.to_table(",
        '    columns=["name", "_distance"],',
        '    nearest={"column": "embedding", "q": lamp, "k": 4},',
        ")",
        'print(*alike["name"].to_pylist(), sep="\\n")',
    )


def _index(stage: Stage) -> None:
    stage.say("An index makes searches fast however many vectors there are. Spark builds it:")
    stage.shell("jobs", "index", "products", "embedding", "--type", "IVF_PQ")
    _search(stage)


def _nest(stage: Stage) -> None:
    stage.say("Namespaces are folders for tables, as deep as you like. A dot separates the parts.")
    stage.shell("ns", "create", "archive", "--set", "owner=accounting")
    stage.shell("ns", "create", "archive.2025")
    stage.say("A table moves into one by being renamed, whatever its size: its bytes stay.")
    stage.shell("table", "rename", "orders", "archive.2025.orders")
    stage.shell("table", "list", "--all")


def _go_back(stage: Stage) -> None:
    stage.say(
        "Every change of a table is a version. A tag gives one a name, and keeps it from being "
        "cleaned up."
    )
    before = stage.variables["catalog"].open_table(["products"]).version
    stage.shell("table", "tag", "products", "spring")
    stage.say("Somebody wants to lower the price of lamps, and forgets to say of which:")
    stage.python(
        "from lance_namespace import UpdateTableRequest",
        'half = [["price", "price * 0.5"]]',
        'wanted = UpdateTableRequest(id=["products"], updates=half)',
        'print(catalog.update_table(wanted).updated_rows, "prices were changed")',
    )
    stage.say("Nothing is lost. The version from before becomes the latest again:")
    stage.shell("table", "versions", "products")
    stage.shell("table", "restore", "products", str(before))
    stage.shell("table", "query", "products", "--where", "sku < 'P0004'", "--columns", "sku,price")


def _tidy(stage: Stage) -> None:
    _deliveries(stage)
    stage.say("Small files make readers slow. They are joined while others go on reading:")
    stage.shell("optimize", "products")
    stage.say(
        "Old versions keep their files. What a clean-up would delete is told first, and the tagged "
        "version is not among it. What was in use a moment ago stays too, so nothing goes today:"
    )
    stage.shell("cleanup", "products", "--keep-versions", "5")
    stage.say("Is anything amiss in the catalog?")
    stage.shell("doctor")


def _maintain(stage: Stage) -> None:
    _deliveries(stage)
    stage.say(
        "Small files make readers slow, and old versions keep theirs. One command looks after the "
        "whole catalog while others go on reading and writing, as a file says:"
    )
    policy = stage.keep(
        "tiltyard.toml",
        "[defaults.cleanup]",
        "keep_versions = 5",
        'older_than = "7d"',
    )
    stage.shell("jobs", "maintain", "--policy", str(policy), "--apply", "--yes")
    stage.say("Is anything amiss in the catalog?")
    stage.shell("doctor")


def _deliveries(stage: Stage) -> None:
    stage.say("New goods come in every hour, and each delivery is a small file of its own:")
    stage.python(
        "for hour in range(12):",
        "    _ = lance.write_dataset(",
        "        products.slice(hour, 1), namespace_client=catalog,",
        '        table_id=["products"], mode="append",',
        "    )",
    )


def _race(stage: Stage) -> None:
    stage.say(
        "Ada and Grace have both counted the stock, and both create the table at the same moment, "
        "from two programs that know nothing of each other:"
    )
    for person in ("Ada", "Grace"):
        (FILES / f"{person.lower()}.csv").write_text(
            goods.stock(stage.variables["products"], person)
        )
    statuses = stage.race(
        ("table", "create", "stock", str(FILES / "ada.csv")),
        ("table", "create", "stock", str(FILES / "grace.csv")),
    )
    assert sorted(statuses) == [0, 5], statuses
    stage.say(
        "One of them wins, the other is told, and the table holds the winner's count and nothing "
        "else. No server decided this: the catalog's files did."
    )
    stage.shell("table", "head", "stock")


def _drop(stage: Stage) -> None:
    stage.say(
        "The old price list can go. But a program is reading it, and has come as far as the first "
        "twenty rows:"
    )
    stage.python(
        'reading = catalog.open_table(["old_prices"]).to_batches(batch_size=20)',
        "seen = next(reading).num_rows",
    )
    stage.shell("table", "drop", "old_prices", "--reason", "last year", *ADA)
    stage.say("A drop puts a table into the trash and deletes nothing, so the reader finishes:")
    stage.python(
        "seen += sum(batch.num_rows for batch in reading)",
        'print(seen, "rows were read")',
    )
    stage.say("For everybody else the table is gone. The trash has it:")
    stage.shell("trash", "list")
    orders = (
        "orders.deleted that orders.lance goes by another name"
        if (CATALOG / "orders.deleted").exists()
        else "tables in namespaces lie in directories that tell their whole id"
    )
    stage.say(
        "This is the directory. The small file old_prices.deleted decides that old_prices.lance "
        f"is not shown, and {orders}. __manifest is a table too, with a row for every name."
    )
    stage.directory()


def _undrop(stage: Stage) -> None:
    stage.say("It was needed after all. However large it is, it is back at once:")
    stage.shell("table", "undrop", "old_prices")
    stage.shell("table", "count", "old_prices")
    stage.say(
        "Dropped once more. This time a new table of the same name takes its place: the next "
        "version in the same directory, with rows and columns of its own."
    )
    stage.shell("table", "drop", "old_prices", *ADA)
    (FILES / "new.csv").write_text("sku,price,valid_until\nP0001,19.90,2027-01-31\n")
    stage.shell("table", "create", "old_prices", str(FILES / "new.csv"))
    stage.shell("table", "head", "old_prices")


def _purge(stage: Stage) -> None:
    stage.say("Only a purge deletes. By itself it just tells what it would do:")
    stage.shell("table", "drop", "old_prices", *ADA)
    stage.shell("trash", "purge", "old_prices")
    stage.say(
        "With --apply it would ask a person to type the table's name; a script says --yes. The "
        "receipt tells what was deleted."
    )
    stage.shell("trash", "purge", "old_prices", "--apply", "--yes")


def _race_for_trash(stage: Stage) -> None:
    stage.say(
        "Two cleaning jobs want to purge the stock list. At the same moment somebody asks for it "
        "back. All three are programs of their own:"
    )
    stage.shell("table", "drop", "stock", *ADA)
    purge = ("trash", "purge", "stock", "--apply", "--yes")
    first, second, undrop = stage.race(purge, purge, ("table", "undrop", "stock"))
    has_purged, has_undropped = 0 in (first, second), undrop == 0
    assert has_purged != has_undropped, (first, second, undrop)
    stage.say(
        "The undrop was first, so neither purge deleted anything."
        if has_undropped
        else "A purge was first, so the undrop was refused and nothing half deleted came back.",
        "Who is first changes from run to run. That both sides win, or that a table comes back "
        "with files missing, does not happen.",
    )
    stage.python('print(catalog.table_status(["stock"]).state)')


def _leave(stage: Stage) -> None:
    stage.say(
        "What lies in the directory is plain Lance. Without tiltyard, its tables can still be "
        "opened by their paths, and come out as Arrow tables, which pandas, Polars, DuckDB and "
        "Spark read as they are:"
    )
    stage.python(
        f'plain = lance.dataset("{CATALOG}/products.lance")',
        "lamps = plain.to_table(filter=\"kind = 'lamp' AND price < 30\")",
        'print(type(lamps), lamps.num_rows, "rows")',
        'print(*lamps["name"].to_pylist(), sep="\\n")',
    )


def _fail(stage: Stage) -> None:
    stage.say(
        "Errors say what happened and what to do, with an exit status for scripts, and a type of "
        "their own in Python:"
    )
    stage.python(
        "from lance_namespace import DescribeTableRequest",
        "try:",
        '    catalog.describe_table(DescribeTableRequest(id=["old_prices"]))',
        "except tiltyard.TiltyardError as error:",
        '    print(f"{type(error).__name__}: {error}")',
    )


def _query(stage: Stage) -> None:
    stage.say("Spark reads and writes the same tables by their names:")
    stage.shell("sql", "SELECT kind, count(*) AS goods FROM products GROUP BY kind")
    stage.say(
        "What was sold, by kind? The plan is made first, so that Lance reads only the columns that "
        "it needs, and the rows that a condition leaves:"
    )
    stage.python(
        "from tiltyard import spark",
        "session = spark.session()",
        "sold = spark.sql(",
        f'    session, "{CATALOG}",',
        '    """SELECT kind, sum(pieces) AS pieces',
        "       FROM archive.`2025`.orders JOIN products USING (sku)",
        '       WHERE price < 100 GROUP BY kind ORDER BY pieces DESC""",',
        ")",
        "sold.show()",
    )
    stage.say("A result becomes a table in one commit, however many machines have written it:")
    stage.python(
        f'where = {{"root": "{CATALOG}"}}',
        'cheap = spark.table(session, "products", where="price < 20", **where)',
        'spark.write(cheap, "archive.cheap", **where)',
        'print(catalog.open_table(["archive", "cheap"]).count_rows(), "rows")',
    )


_TRASH = (
    Step("Two programs, one name", _race),
    Step("Drop a table that is being read", _drop),
    Step("Bring it back", _undrop),
    Step("Delete for good", _purge),
    Step("Two purges and an undrop", _race_for_trash),
)
_END = (Step("When something is wrong", _fail), Step("It is all plain Lance", _leave))

STEPS = (
    Step("Open a catalog", _open),
    Step("Load files with Spark", _ingest),
    Step("Look around", _look),
    Step("Find things that are alike", _index),
    Step("Go back to an earlier version", _go_back),
    Step("Keep tables fast", _maintain),
    *_TRASH,
    Step("Ask Spark", _query),
    *_END,
)

# Without Spark, which takes longer to start than all the rest.
QUICK = (
    Step("Open a catalog", _open),
    Step("Make tables", _write),
    Step("Look around", _look),
    Step("Find things that are alike", _search),
    Step("Put tables into namespaces", _nest),
    Step("Go back to an earlier version", _go_back),
    Step("Keep tables fast", _tidy),
    *_TRASH,
    *_END,
)
