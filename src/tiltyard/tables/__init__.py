"""The data of one table, through pylance."""
