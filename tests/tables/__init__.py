"""The data of one table, and how it is described."""
