"""Units of work that maintain tables and the catalog. Each may be run again after any crash."""
