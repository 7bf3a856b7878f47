"""Keeping a catalog in order: each unit of work concerns one table, and may be repeated."""
