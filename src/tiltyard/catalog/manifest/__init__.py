"""The `__manifest` table: rows, snapshots, commits, and the V2 catalog on top of them."""
