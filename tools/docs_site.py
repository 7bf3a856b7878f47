"""What MkDocs calls while `make docs` builds the pages: a hook, named in mkdocs.yml.

README.md, CHANGELOG.md and other pages beside docs/ become pages of the site, under their own
names. Links are written for the repository, and changed where a page has another place in the site.
A page that would load something over the network stops the build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parent.parent

# A link to a file, and the rest of it: an anchor, a title.
_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
_LOADS = re.compile(r"<(?:script|img|iframe|link(?! rel=.canonical))\b[^>]*(?:src|href)=.?https?:")
# The theme draws a box around a block of code, and another one inside.
_STYLE = "\n.rst-content .highlight > pre { border: 0; margin: 0; padding: 0 }\n"


def on_config(config: Any) -> Any:
    """Put the pages of a directory where the navigation has its name, like `design/`."""
    config["nav"] = _with_directories(config["nav"], Path(config["docs_dir"]))
    return config


def _with_directories(nav: list[Any], docs: Path) -> list[Any]:
    entries: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            entries += [
                {title: _with_directories(below, docs) if isinstance(below, list) else below}
                for title, below in entry.items()
            ]
        elif entry.endswith("/"):
            pages = sorted((docs / entry).glob("*.md"), key=_readme_first)
            entries += [page.relative_to(docs).as_posix() for page in pages]
        else:
            entries.append(entry)
    return entries


def _readme_first(page: Path) -> tuple[bool, str]:
    return page.stem not in ("README", "index"), page.name


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that lie beside docs/, and the colours of code."""
    for page in sorted(ROOT.glob("*.md")):
        files.append(File.generated(config, page.name, abs_src_path=str(page)))
    style = HtmlFormatter().get_style_defs(".highlight") + _STYLE
    files.append(File.generated(config, "highlight.css", content=style))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site; to a file
    that is none of its pages, into one to the repository's own site."""
    here = page.file.src_uri
    in_repository = here if _is_beside(here) else f"docs/{here}"

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link[1]))
        if not (ROOT / target).exists():
            return link[1]  # MkDocs tells that it is broken
        if not target.startswith("docs/") and not _is_beside(target):
            return f"{config['repo_url']}/blob/main/{target}"
        return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(here) or ".")

    return _LINK.sub(moved, markdown)


def _is_beside(page: str) -> bool:
    """Whether it is a page of the repository's top directory."""
    return "/" not in page and page.endswith(".md") and (ROOT / page).exists()


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Refuse a page that needs the network."""
    if loads := _LOADS.search(output):
        raise PluginError(f"{page.file.src_uri} would load {loads[0]}...")
    return output
