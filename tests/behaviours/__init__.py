"""One suite that states the specification, run over every mode on every store."""
