"""A fresh catalog for every test, as in the behaviours, and pylance's client on the same root."""

from __future__ import annotations

import lance_namespace as api
import pytest

from tests.behaviours.conftest import catalog, mode, place, reopen
from tests.behaviours.modes import Mode
from tests.behaviours.places import Place
from tests.peers.clients import open_pylance, properties

__all__ = ["catalog", "mode", "place", "reopen"]


@pytest.fixture
def pylance(mode: Mode, place: Place) -> api.LanceNamespace:
    return open_pylance(properties(mode, place))
