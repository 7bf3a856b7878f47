"""Catalogs as in the behaviours, for tests of what happens below them."""

from tests.behaviours.conftest import catalog, mode, place, reopen

__all__ = ["catalog", "mode", "place", "reopen"]
