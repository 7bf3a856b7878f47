"""`tiltyard config`: what the options, the environment and the defaults come to."""

from __future__ import annotations

import re

import typer

from tiltyard.cli.call import Call, verb
from tiltyard.cli.output import Field

app = typer.Typer(help="See how the catalog is reached.", no_args_is_help=True)

# Whatever is called a key is not shown; some are public, and nobody misses those.
_IS_OPTION = re.compile(r"storage\.")
_IS_KEY = re.compile(r"(?i)key")


@verb(app, "show")
def show(call: Call) -> None:
    """Show every property with its value and where it was set. Secrets are not shown."""
    from tiltyard.errors import redact

    given = call.options.sources()
    secrets = call.settings.secrets
    rows = []
    for name, value in sorted(call.settings.as_properties().items()):
        is_secret = _IS_OPTION.match(name) and (value in secrets or _IS_KEY.search(name))
        rows.append(
            {
                "property": name,
                "value": "***" if is_secret else redact(value),
                "from": given.get(name, ("", "default"))[1],
            }
        )
    call.out.rows([Field("property"), Field("value"), Field("from")], rows)
