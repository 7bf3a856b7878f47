"""A process that may read a catalog's directory and not write into it, and says how it fared."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor

import tiltyard
from tests.behaviours.calls import (
    all_tables,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make_namespace,
    namespaces,
    register,
    rename,
    tables,
)
from tests.behaviours.processes import context

NOBODY = 65534

Answers = dict[str, object]


def ask_as_nobody(properties: Mapping[str, str]) -> Answers:
    """What each operation answers where there is a table "people", or the code of its error."""
    with ProcessPoolExecutor(1, context()) as pool:
        return pool.submit(_ask_everything, properties).result()


def _ask_everything(properties: Mapping[str, str]) -> Answers:
    with tempfile.TemporaryDirectory() as warm:  # what is imported later may be out of reach
        create(tiltyard.connect(warm), "people")
    if os.geteuid() == 0:  # whom no permission stops
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    catalog = tiltyard.connect(**properties)
    acts: dict[str, Callable[[], object]] = {
        "list_tables": lambda: tables(catalog),
        "list_all_tables": lambda: all_tables(catalog),
        "list_namespaces": lambda: namespaces(catalog),
        "table_exists": lambda: exists(catalog, "people"),
        "describe_table": lambda: describe(catalog, "people", load_detailed_metadata=True).version,
        "declare_table": lambda: declare(catalog, "plants"),
        "create_table": lambda: create(catalog, "plants"),
        "overwrite": lambda: create(catalog, "people", mode="overwrite"),
        "register_table": lambda: register(catalog, "outside", at="outside.lance"),
        "deregister_table": lambda: deregister(catalog, "people"),
        "drop_table": lambda: drop(catalog, "people"),
        "rename_table": lambda: rename(catalog, "people", to="staff"),
        "create_namespace": lambda: make_namespace(catalog, "prod"),
    }
    return {name: _answer(act) for name, act in acts.items()}


def _answer(act: Callable[[], object]) -> object:
    try:
        return act()
    except tiltyard.TiltyardError as error:
        return error.code
