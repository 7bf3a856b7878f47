"""The web console: HTML pages over a catalog, rendered on the server.

`pages()` are the routes that the server mounts under /console. `PAGES` is the table of all pages
and the role that each one needs.
"""

from tiltyard.console.pages import PAGES, pages, roles

__all__ = ["PAGES", "pages", "roles"]
