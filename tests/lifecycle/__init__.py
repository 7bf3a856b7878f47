"""The lives of tables, below and beside what the behaviours see: requests, crashes, races."""
