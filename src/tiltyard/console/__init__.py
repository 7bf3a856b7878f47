"""The web console: pages over a catalog that a person reads and clicks, made on the server.

`pages()` are the routes that the server mounts under /console, and `PAGES` is the table behind
them: which there are, and the role that each one needs.
"""

from tiltyard.console.pages import PAGES, pages, roles

__all__ = ["PAGES", "pages", "roles"]
