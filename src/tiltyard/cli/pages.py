"""How pages of help look: for people, without the types of Python, in an order that helps."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

# What a newcomer needs first, then what keeps a catalog well, then Spark and servers.
ORDER = (
    *("table", "trash", "ns", "optimize", "cleanup"),
    *("doctor", "recover", "repair", "orphans", "snapshot", "manage", "migrate"),
    *("jobs", "sql", "serve", "keys", "config", "completion"),
)
# `TABLE <list[str]>`; `[x>=1]`, `[default: 10; x>=1]`; and that an argument is needed is in the
# first line.
_TYPE = re.compile(r" <[^|>]*>")
_RANGE = re.compile(r"  \[x>=\d+\]|; x>=\d+|x>=\d+; |  \[required\]")


class Front(TyperGroup):
    """Commands as `ORDER` has them, and not those with verbs behind all others."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=ORDER.index)


class Page(TyperCommand):
    """One verb's page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`TABLE...` and not `{TABLE}...`."""
        return [re.sub(r"^\{(.*)\}", r"\1", each) for each in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            found = [
                (_TYPE.sub("", name), _RANGE.sub("", text.replace("; required]", "]")))
                for each in self.get_params(ctx)
                if each.param_type_name == kind
                for name, text in [each.get_help_record(ctx) or ("", "")]
                if name
            ]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
