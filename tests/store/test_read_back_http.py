"""The same certainty over real HTTP, where a proxy loses answers and invents conflicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.faultproxy import FaultProxy
from tests.kit.faults import Drop, Fault, ForgetConditions, Status, Truncate, When
from tests.kit.servers import S3Server
from tests.store.conftest import open_on
from tiltyard.errors import (
    PermissionDeniedError,
    ServiceUnavailableError,
    StoreCannotCompareAndSwapError,
    ThrottlingError,
    UnauthenticatedError,
)
from tiltyard.store import AlreadyThere, Changed, NotThere, Retry, Store, read_back

RETRY = Retry(attempts=4, sleep=lambda _: None)

AFTER = [
    pytest.param(Drop(when=When.AFTER), id="answer-dropped"),
    pytest.param(Status(500, "InternalError", when=When.AFTER), id="500-after"),
    pytest.param(Status(503, "SlowDown", when=When.AFTER), id="503-after"),
    pytest.param(Status(412, "PreconditionFailed", when=When.AFTER), id="412-after"),
    pytest.param(Status(409, "ConditionalRequestConflict", when=When.AFTER), id="409-after"),
]
BEFORE = [
    pytest.param(Drop(), id="request-dropped"),
    pytest.param(Status(500), id="500"),
    pytest.param(Status(503, "SlowDown"), id="503"),
    pytest.param(Status(429, "TooManyRequests"), id="429"),
    pytest.param(Status(409, "ConditionalRequestConflict"), id="409"),
]


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(ministack: S3Server, proxy: FaultProxy) -> Store:
    return open_on(ministack.through(proxy.url), ministack.new_root())


@pytest.mark.parametrize("fault", AFTER)
def test_a_create_that_happened_is_recognised(
    store: Store, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.inject(fault, method="PUT")
    tag = read_back.put_new(store, "object", b"mine", RETRY)
    assert proxy.count("PUT") == 1
    assert store.get("object").tag == tag


@pytest.mark.parametrize("fault", BEFORE)
def test_a_create_that_did_not_happen_is_tried_again(
    store: Store, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.inject(fault, method="PUT")
    read_back.put_new(store, "object", b"mine", RETRY)
    assert proxy.count("PUT") == 2
    assert store.get("object").body == b"mine"


@pytest.mark.parametrize("fault", AFTER)
def test_a_swap_that_happened_is_recognised(store: Store, proxy: FaultProxy, fault: Fault) -> None:
    old = store.put("object", b"before")
    proxy.clear()
    proxy.inject(fault, method="PUT")
    tag = read_back.replace(store, "object", b"mine", old, RETRY)
    assert proxy.count("PUT") == 1
    assert store.get("object").tag == tag


@pytest.mark.parametrize("fault", BEFORE)
def test_a_swap_that_did_not_happen_is_tried_again(
    store: Store, proxy: FaultProxy, fault: Fault
) -> None:
    old = store.put("object", b"before")
    proxy.clear()
    proxy.inject(fault, method="PUT")
    read_back.replace(store, "object", b"mine", old, RETRY)
    assert proxy.count("PUT") == 2
    assert store.get("object").body == b"mine"


def test_losers_learn_it_in_two_requests(store: Store, proxy: FaultProxy) -> None:
    old = store.put("object", b"before")
    store.put("object", b"another's")
    proxy.clear()
    with pytest.raises(AlreadyThere):
        read_back.put_new(store, "object", b"mine", RETRY)
    with pytest.raises(Changed):
        read_back.replace(store, "object", b"mine", old, RETRY)
    assert [request.method for request in proxy.requests] == ["PUT", "GET", "PUT", "GET"]


@pytest.mark.parametrize("fault", [*BEFORE[:4], pytest.param(Truncate(), id="half-a-body")])
def test_a_read_is_repeated(store: Store, proxy: FaultProxy, fault: Fault) -> None:
    store.put("object", b"mine" * 100)
    proxy.inject(fault, method="GET")
    assert store.get("object").body == b"mine" * 100
    assert proxy.count("GET") == 2


def test_an_unconditional_write_is_repeated(store: Store, proxy: FaultProxy) -> None:
    proxy.inject(Drop(when=When.AFTER), method="PUT")
    store.put("object", b"mine")
    assert proxy.count("PUT") == 2


def test_a_walk_goes_on_where_it_broke_off(store: Store, proxy: FaultProxy) -> None:
    for number in range(3):
        store.put(f"a/{number}", b"")
    proxy.inject(Status(503, "SlowDown"), path="list-type")
    assert [entry.key for entry in store.walk("a")] == ["a/0", "a/1", "a/2"]


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (401, "Unauthorized", UnauthenticatedError),
        (403, "AccessDenied", PermissionDeniedError),
        (403, "SignatureDoesNotMatch", UnauthenticatedError),
    ],
)
def test_a_refusal_is_final_and_typed(
    store: Store, proxy: FaultProxy, code: int, reason: str, expected: type[Exception]
) -> None:
    proxy.inject(Status(code, reason), times=None)
    for request in (lambda: store.get("x"), lambda: read_back.put_new(store, "x", b"", RETRY)):
        with pytest.raises(expected):
            request()
    assert proxy.count() == 2


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Status(503, "SlowDown"), ThrottlingError),
        (Status(500), ServiceUnavailableError),
        (Drop(), ServiceUnavailableError),
    ],
)
def test_reads_of_a_broken_store_end(
    store: Store, proxy: FaultProxy, fault: Fault, expected: type[Exception]
) -> None:
    proxy.inject(fault, times=None)
    with pytest.raises(expected):
        store.get("object")
    assert proxy.count() == 5


def test_the_name_of_an_object_does_not_decide_what_its_failure_means(
    store: Store, proxy: FaultProxy
) -> None:
    proxy.inject(Status(403, "AccessDenied"), times=None)
    with pytest.raises(PermissionDeniedError):
        store.get("connection timeout/no such bucket")
    proxy.clear()
    with pytest.raises(NotThere):
        store.get("NoSuchBucket")


def test_a_server_that_forgets_conditions_is_refused(store: Store, proxy: FaultProxy) -> None:
    proxy.inject(ForgetConditions(), times=None)
    with pytest.raises(StoreCannotCompareAndSwapError, match="create-if-absent"):
        store.require_conditions()


def test_a_server_that_does_not_know_conditions_is_refused(store: Store, proxy: FaultProxy) -> None:
    proxy.inject(Status(501, "NotImplemented"), conditional=True, times=None)
    with pytest.raises(StoreCannotCompareAndSwapError, match="501"):
        store.require_conditions()
