"""Catalogs as in the behaviours, for tests of what happens below them."""

from tests.behaviours.conftest import catalog, faulty, mode, place, reopen

__all__ = ["catalog", "faulty", "mode", "place", "reopen"]
