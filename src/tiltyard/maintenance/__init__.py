"""Keeping tables small and fast: units of work on one table each, and many of them at once."""
