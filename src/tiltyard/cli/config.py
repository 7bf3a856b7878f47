"""`tiltyard config`: what the options, the environment and the defaults come to."""

from __future__ import annotations

import typer

from tiltyard.cli.call import Call, verb
from tiltyard.cli.output import Field

app = typer.Typer(help="See how the catalog is reached.", no_args_is_help=True)


@verb(app, "show")
def show(call: Call) -> None:
    """Show every property with its value and where it was set. Secrets are not shown."""
    given = call.options.sources()
    settings = call.settings
    rows = []
    for name, value in sorted(settings.as_properties().items()):
        shown = "***" if value in settings.secrets else value
        rows.append({"property": name, "value": shown, "from": given.get(name, ("", "default"))[1]})
    call.out.rows([Field("property"), Field("value"), Field("from")], rows)
