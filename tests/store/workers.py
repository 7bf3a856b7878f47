"""What the other processes of `test_local` do. Forked from a clean server process, so that they
start in milliseconds and share nothing with the tests but the disk."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from uuid import uuid4

from tiltyard.errors import TiltyardError
from tiltyard.store import Changed, LocalStore, Outcome, Tag

COUNTER = "count"
NOBODY = 65_534


def context() -> ForkServerContext:
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["tests.store.workers"])
    return made


def body(count: int) -> bytes:
    """A number that only its writer can have written, long enough to tear, with a checksum."""
    text = f"{count} {uuid4().hex} ".encode() * 200
    return hashlib.sha256(text).hexdigest().encode() + b" " + text


def number(body: bytes) -> int:
    """The number in a body; fails on a torn one."""
    checksum, _, text = body.partition(b" ")
    assert hashlib.sha256(text).hexdigest().encode() == checksum, "a torn body"
    return int(text.split()[0])


def start_counting(root: str) -> tuple[ForkServerProcess, Connection]:
    """A process that increments the counter for ever and reports every acknowledged number."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = context().Process(target=_count, args=(root, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _count(root: str, sender: Connection) -> None:
    store = LocalStore(root)
    while True:
        found = store.get(COUNTER)
        count = number(found.body) + 1
        try:
            store.replace(COUNTER, body(count), found.tag)
        except Changed:
            continue
        sender.send(count)


def start_changing(root: str, folder: str) -> tuple[ForkServerProcess, Connection]:
    """A process that changes a folder once for each word it is sent, and answers with what
    `first` must say from then on."""
    mine, its = multiprocessing.Pipe()
    process = context().Process(target=_change, args=(root, folder, its), daemon=True)
    process.start()
    its.close()
    return process, mine


def _change(root: str, folder: str, questions: Connection) -> None:
    path = f"{root}/{folder}"
    dice = random.Random(7)
    while True:
        try:
            word = questions.recv()
        except EOFError:
            return
        names = sorted(name for name in os.listdir(path))
        new = f"{path}/{dice.randrange(1_000):03d}-{uuid4().hex}"
        if word in ("add", "add and remove"):
            open(new, "xb").close()
        if word == "add and remove":
            os.unlink(new)
        if word == "remove" and names:
            os.unlink(f"{path}/{names[0]}")
        if word == "swap" and names:
            os.rename(f"{path}/{names[0]}", new)
        questions.send(min(os.listdir(path), default=None))


def try_as_nobody(root: str) -> dict[str, object]:
    """What each verb answers to a process that may read the root but not write into it."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = context().Process(target=_try_all, args=(root, sender), daemon=True)
    process.start()
    sender.close()
    answers: dict[str, object] = receiver.recv()
    process.join()
    return answers


def _try_all(root: str, sender: Connection) -> None:
    if os.geteuid() == 0:  # whom no permission stops
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    store = LocalStore(root)
    tag = store.get("folder/object").tag
    attempts = {
        "get": lambda: store.get("folder/object").body,
        "head": lambda: store.head("folder/object").size,
        "list": lambda: store.list().directories,
        "walk": lambda: [entry.key for entry in store.walk("folder")],
        "first": lambda: store.first("folder") is not None,
        "put": lambda: store.put("folder/object", b"2"),
        "put_new": lambda: store.put_new("folder/new", b"2"),
        "put_new elsewhere": lambda: store.put_new("elsewhere/new", b"2"),
        "replace": lambda: store.replace("folder/object", b"2", tag),
        "replace with a wrong tag": lambda: store.replace("folder/object", b"2", Tag("wrong")),
        "delete": lambda: store.delete("folder/object"),
        "delete_many": lambda: store.delete_many(["folder/object"]),
        "list secret": lambda: store.list("secret"),
    }
    sender.send({name: _answer(attempt) for name, attempt in attempts.items()})


def _answer(attempt: Callable[[], object]) -> object:
    try:
        return attempt()
    except (TiltyardError, Outcome, OSError) as problem:
        return type(problem)
