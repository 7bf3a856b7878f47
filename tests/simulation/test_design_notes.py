"""Every rule that a mutant leaves out stands in the design notes, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.commit_mutants import COMMIT_MUTANTS
from tests.simulation.mutants import MUTANTS

NOTES = Path(__file__).parents[2] / "docs" / "design"


def test_each_mutant_stands_in_the_notes_and_each_that_they_name_exists() -> None:
    named: set[str] = set()
    for page in ("lifecycle.md", "versions.md"):
        table = (NOTES / page).read_text().partition("## What fails without each rule")[2]
        rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|", table.partition("## ")[0], re.MULTILINE)
        named.update(name for row in rows for name in re.findall(r"`([^`]+)`", row))
    assert named == {mutant.name for mutant in (*MUTANTS, *COMMIT_MUTANTS)}
