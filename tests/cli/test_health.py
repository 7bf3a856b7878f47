"""`doctor`, `recover`, `repair` and `orphans`, as they are typed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.cli.conftest import Tiltyard
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import AFTER, lake

MORE = pa.table({"id": [9], "name": ["x"]})


def test_a_healthy_catalog_has_nothing_amiss(products: Tiltyard) -> None:
    shown = products("doctor")
    assert (shown.status, shown.out, shown.err) == (0, "", "Nothing is amiss.\n")
    assert json.loads(products("doctor", "-o", "json").out) == []


def test_warnings_do_not_fail_and_errors_do(products: Tiltyard, tmp_path: Path) -> None:
    table = tmp_path / "lake" / "products.lance"
    lance.dataset(str(table)).update_config({"lance.auto_cleanup.interval": "20"})
    shown = products("doctor", "-o", "json")
    assert shown.status == 0
    (only,) = json.loads(shown.out)
    assert only.pop("message").startswith("Lance deletes its versions")
    assert only == {
        "severity": "warning",
        "what": "auto cleanup",
        "where": "products",
        "mend": "tiltyard repair products --no-auto-cleanup --apply",
    }
    assert products("repair", "products", "--no-auto-cleanup", "--apply", "--yes").status == 0
    for path in (table / "_versions").glob("*.manifest"):
        path.write_bytes(b"broken")
    shown = products("doctor")
    assert shown.status == 1
    assert "unreadable table" in shown.out


def test_nothing_to_recover(products: Tiltyard) -> None:
    assert products("recover").err == "Nothing to recover.\n"
    assert products("recover", "--older-than", "soon").status == 2


def test_a_batch_that_was_cut_off_is_ended(tiltyard: Tiltyard, tmp_path: Path) -> None:
    tried = lake(tmp_path / "lake", manifest_enabled=False)
    opened, store = tried.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=1)
    with pytest.raises(Crash):
        opened.services.batches.create_all(tried.wanted)
    (waiting,) = json.loads(tiltyard("recover", "-o", "json").out)
    assert waiting["outcome"] == "deferred"
    shown = tiltyard("recover", "--older-than", "0s", "-o", "json")
    assert shown.status == 0
    (only,) = json.loads(shown.out)
    assert (only["kind"], only["outcome"], only["tables"]) == ("batch", "rolled forward", "a, b, c")
    assert tried.rows() == [AFTER] * 3


def test_what_can_not_be_understood_fails_in_part(tiltyard: Tiltyard, tmp_path: Path) -> None:
    (tmp_path / "lake" / "__recovery").mkdir(parents=True)
    (tmp_path / "lake" / "__recovery" / "1.json").write_text('{"schema": 9}')
    assert tiltyard("recover").status == 3
    assert tiltyard("doctor").status == 1


def test_repair_shows_what_it_would_do_and_wants_to_be_sure(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    tried = lake(tmp_path / "lake", manage=True, dir_listing_enabled=False)
    lance.write_dataset(MORE, tried.uri("a"), mode="append")
    manifest = ("--mode", "manifest")
    for apply in ((), ("--apply", "--yes")):
        refused = tiltyard("repair", "a", *apply, *manifest)
        assert refused.status == 1
        assert "adopt them or to discard them" in refused.err
    for word in ("adopt", "discard"):
        shown = tiltyard("repair", "a", f"--{word}", "-o", "json", *manifest)
        assert json.loads(shown.out) == [
            {"table": "a", "action": f"would {word}", "what": "version 2"}
        ]
    assert (
        "Nothing was changed; --apply does it." in tiltyard("repair", "a", "--adopt", *manifest).err
    )
    assert tiltyard("repair", "a", "--adopt", "--apply", *manifest).status == 2
    assert (
        tiltyard("repair", "a", "--adopt", "--discard", "--apply", "--yes", *manifest).status == 2
    )
    adopted = tiltyard("repair", "a", "--adopt", "--apply", "--yes", "-o", "json", *manifest)
    assert json.loads(adopted.out) == [{"table": "a", "action": "adopted", "what": "version 2"}]
    assert tiltyard("repair", "a", *manifest).err == "Nothing to mend.\n"


def test_orphans_are_shown_and_removed_only_if_asked(products: Tiltyard, tmp_path: Path) -> None:
    stray = tmp_path / "lake" / "products.lance" / "data" / "stray.lance"
    stray.write_bytes(b"12345")
    assert products("orphans").err == "No orphans.\n"
    os.utime(stray, (time.time() - 30 * 86400,) * 2)
    (only,) = json.loads(products("orphans", "-o", "json").out)
    assert (only["path"], only["kind"], only["bytes"], only["outcome"]) == (
        "products.lance/data/stray.lance",
        "file",
        5,
        "found",
    )
    assert products("orphans", "--apply").status == 2
    assert stray.exists()
    (only,) = json.loads(products("orphans", "--apply", "--yes", "-o", "json").out)
    assert only["outcome"] == "removed"
    assert not stray.exists()


def test_young_orphans_need_one_word_more(products: Tiltyard, tmp_path: Path) -> None:
    stray = tmp_path / "lake" / "products.lance" / "data" / "stray.lance"
    stray.write_bytes(b"12345")
    young = ("orphans", "products", "--older-than", "0s", "--apply", "--yes")
    refused = products(*young)
    assert (refused.status, "--even-if-young" in refused.err) == (2, True)
    assert stray.exists()
    assert products(*young, "--even-if-young").status == 0
    assert not stray.exists()


def test_a_table_without_a_name_goes_into_the_trash(tiltyard: Tiltyard, tmp_path: Path) -> None:
    manifest = ("--mode", "manifest")
    assert tiltyard(*manifest, "ns", "create", "shop").status == 0
    lance.write_dataset(MORE, str(tmp_path / "lake" / "0123abcd_shop$users"))
    adopting = ("orphans", "--adopt", "0123abcd_shop$users", *manifest)
    assert tiltyard(*adopting).status == 2
    assert tiltyard(*adopting, "--yes").status == 0
    (only,) = json.loads(tiltyard("trash", "list", "-o", "json", *manifest).out)
    assert only["table"] == "shop.users"
