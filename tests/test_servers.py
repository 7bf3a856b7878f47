"""The servers and the fault proxy do what the tests that stand on them take for granted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from tests.kit.buckets import S3Server, Server
from tests.kit.faultproxy import (
    AFTER,
    BEFORE,
    Delay,
    Drop,
    Fault,
    FaultProxy,
    ForgetConditions,
    Hang,
    Hold,
    Status,
    Truncate,
)


@pytest.fixture(params=["ministack", "seaweedfs", "azurite"])
def server(request: pytest.FixtureRequest) -> Server:
    started: Server = request.getfixturevalue(request.param)
    return started.new_bucket()


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(ministack: S3Server, proxy: FaultProxy) -> S3Server:
    return ministack.new_bucket().through(proxy.url)


def test_a_key_is_created_only_if_it_is_absent(server: Server) -> None:
    store = server.store()
    obstore.put(store, "key", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "key", b"second", mode="create")
    assert bytes(obstore.get(store, "key").bytes()) == b"first"


def test_a_key_is_replaced_only_if_its_etag_still_holds(server: Server) -> None:
    store = server.store()
    old = obstore.put(store, "key", b"first")
    new = obstore.put(store, "key", b"second", mode={"e_tag": old["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "key", b"third", mode={"e_tag": old["e_tag"]})
    assert bytes(obstore.get(store, "key").bytes()) == b"second"
    assert obstore.head(store, "key")["e_tag"] == new["e_tag"]


def test_of_many_who_create_one_key_one_wins(server: Server) -> None:
    def create(number: int) -> bool:
        try:
            obstore.put(server.store(), "key", b"%d" % number, mode="create")
        except AlreadyExistsError:
            return False
        return True

    # Four, because SeaweedFS makes losers wait.
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(4))) == 1


def test_lance_writes_and_reads_a_table(server: Server) -> None:
    address, options = f"{server.new_root()}/t.lance", server.storage_options()
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), address, storage_options=options)
    assert lance.dataset(address, storage_options=options).count_rows() == 3


def test_buckets_are_apart_from_each_other(server: Server) -> None:
    obstore.put(server.store(), "key", b"here")
    assert list(obstore.list(server.new_bucket().store())) == []


def test_rclone_ignores_conditions(rclone_s3: S3Server) -> None:
    store = rclone_s3.new_bucket().store()
    obstore.put(store, "key", b"first", mode="create")
    obstore.put(store, "key", b"second", mode="create")
    obstore.put(store, "key", b"third", mode={"e_tag": '"not the tag"'})
    assert bytes(obstore.get(store, "key").bytes()) == b"third"


def test_the_proxy_counts_every_request(proxy: FaultProxy, bucket: S3Server) -> None:
    store = bucket.store()
    with proxy.recording() as requests:
        obstore.put(store, "a key", b"body", mode="create")
        obstore.head(store, "a key")
        obstore.get(store, "a key").bytes()
        obstore.list(store, "a").collect()
        obstore.delete(store, "a key")
    # Deleting is a bulk request in obstore.
    assert [request.method for request in requests] == ["PUT", "HEAD", "GET", "GET", "POST"]
    created, _, got, listed, _ = requests
    assert created.path == f"/{bucket.bucket}/a key"
    assert created.conditional
    assert not got.conditional
    assert (created.sent_bytes, got.received_bytes) == (4, 4)
    assert "prefix=a" in listed.query
    assert {request.status for request in requests} == {200}
    assert proxy.count("GET") == 2
    assert proxy.count(path="a key") == 3


def test_the_proxy_passes_signed_and_concurrent_requests(seaweedfs: S3Server) -> None:
    with FaultProxy(seaweedfs.endpoint) as proxy:
        server = seaweedfs.new_bucket().through(proxy.url)
        store = server.store()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: obstore.put(store, f"{n}", b"x" * n), range(64)))
        address, options = f"{server.new_root()}/t.lance", server.storage_options()
        lance.write_dataset(pa.table({"id": [1, 2, 3]}), address, storage_options=options)
        assert lance.dataset(address, storage_options=options).count_rows() == 3
        assert proxy.count("PUT", path=r"/\d+$") == 64
        assert proxy.count(path=r"t\.lance/_versions") > 0


@pytest.mark.parametrize(
    "fault",
    [Status(503, "SlowDown"), Drop(), Status(500, when=AFTER), Drop(when=AFTER)],
    ids=["error before", "drop before", "error after", "drop after"],
)
def test_a_write_that_fails_after_the_store_took_it_is_there(
    proxy: FaultProxy, bucket: S3Server, fault: Fault
) -> None:
    store = bucket.store()
    proxy.inject(fault, method="PUT", path="/key$")
    with pytest.raises(BaseError):
        obstore.put(store, "key", b"body", mode="create")
    if fault.when is BEFORE:
        with pytest.raises(FileNotFoundError):
            obstore.head(store, "key")
    else:
        assert bytes(obstore.get(store, "key").bytes()) == b"body"
    failed = proxy.requests[0]
    assert failed.fault == fault
    assert failed.status == (None if fault.when is BEFORE else 200)


def test_a_hanging_request_ends_with_the_client_s_patience(
    proxy: FaultProxy, bucket: S3Server
) -> None:
    proxy.inject(Hang(when=AFTER), method="PUT")
    with pytest.raises(BaseError):
        obstore.put(bucket.store(timeout="5s"), "key", b"body")
    assert bytes(obstore.get(bucket.store(), "key").bytes()) == b"body"


def test_a_delayed_request_still_succeeds(proxy: FaultProxy, bucket: S3Server) -> None:
    proxy.inject(Delay(0.01), times=None)
    obstore.put(bucket.store(), "key", b"body")
    assert [request.fault for request in proxy.requests] == [Delay(0.01)]


def test_a_held_request_lets_another_pass_it(proxy: FaultProxy, bucket: S3Server) -> None:
    hold = Hold()
    proxy.inject(hold, method="PUT")
    slow = threading.Thread(target=lambda: obstore.put(bucket.store(), "key", b"held"))
    slow.start()
    assert hold.reached.wait(300)
    obstore.put(bucket.store(), "key", b"passed")
    hold.released.set()
    slow.join()
    assert bytes(obstore.get(bucket.store(), "key").bytes()) == b"held"


def test_a_truncated_body_is_noticed(proxy: FaultProxy, bucket: S3Server) -> None:
    store = bucket.store()
    obstore.put(store, "key", b"x" * 10_000)
    proxy.inject(Truncate(), method="GET")
    with pytest.raises(BaseError):
        obstore.get(store, "key").bytes()


def test_a_store_can_be_made_to_forget_conditions(proxy: FaultProxy, bucket: S3Server) -> None:
    store = bucket.store()
    proxy.inject(ForgetConditions(), times=None)
    obstore.put(store, "key", b"first", mode="create")
    obstore.put(store, "key", b"second", mode="create")
    assert bytes(obstore.get(store, "key").bytes()) == b"second"


def test_a_rule_strikes_as_often_as_it_says(proxy: FaultProxy, bucket: S3Server) -> None:
    store = bucket.store()
    obstore.put(store, "key", b"body")
    proxy.inject(Status(503, "SlowDown"), method="HEAD", skip=1, times=2)

    def answers() -> bool:
        try:
            obstore.head(store, "key")
        except BaseError:
            return False
        return True

    assert [answers() for _ in range(5)] == [True, False, False, True, True]


def test_a_rule_can_ask_for_conditional_writes_only(proxy: FaultProxy, bucket: S3Server) -> None:
    proxy.inject(Status(409, "ConditionalRequestConflict"), conditional=True)
    obstore.put(bucket.store(), "key", b"plain")
    with pytest.raises(AlreadyExistsError):  # obstore's reading of 409, though nothing is there
        obstore.put(bucket.store(), "other", b"guarded", mode="create")
    assert proxy.count("PUT") == 2
