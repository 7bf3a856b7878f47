"""Settings of a table that work against us, found while it is open anyway."""

from __future__ import annotations

import lance

AUTO_CLEANUP = "lance.auto_cleanup."


def about(dataset: lance.LanceDataset) -> str | None:
    """What somebody should know about a table. No request.

    Lance's own clean-up runs inside of any writer's commit. It knows no boundary and no minimum
    age, so a writer that was asleep may take a number again that it removed.
    """
    found = sorted(each for each in dataset.config() if each.startswith(AUTO_CLEANUP))
    if not found:
        return None
    return (
        f"{', '.join(found)}: Lance itself deletes versions of this table, past the boundary; "
        f"take these settings away"
    )
