"""The `tiltyard` command: nouns and verbs, in the same words as the Python interface.

Importing this package loads typer and nothing else. A command imports what it needs when it runs,
so that help answers at once.
"""

from tiltyard.cli.app import main

__all__ = ["main"]
