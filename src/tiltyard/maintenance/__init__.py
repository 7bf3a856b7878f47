"""Units of work that keep tables and the catalog in shape. Each may be run again after any crash."""
