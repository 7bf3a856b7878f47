"""Which names exist and where they live."""
