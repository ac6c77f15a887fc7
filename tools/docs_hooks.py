"""Hooks of MkDocs: generated texts, pages of root files, links.

Links on pages work in the repository and on the site: a link to a file outside of
`docs/` leads to the page made of that file, or becomes plain text, as the sources are
not part of the site. Pages of the navigation that do not exist yet are left out of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File

from tools.conformance import pages
from tools.docs_reference import generated

ROOT: Final = Path(__file__).parent.parent
MD: Final = ".md"
ROOT_PAGES: Final[Mapping[str, str]] = {
    "ARCHITECTURE.md": "architecture" + MD,
    "CHANGELOG.md": "changelog" + MD,
    "CONTRIBUTING.md": "contributing" + MD,
    "SECURITY.md": "threat-model" + MD,
}
"""Files beside docs/, and the names of their pages."""
KIT: Final = "testing/"
"""The folder whose pages are added to the navigation if mkdocs.yml lacks them."""
RECORDS: Final = ("conformance", "decisions")
"""Folders of pages that a search lists after all others."""
WIDE: Final = ("index" + MD, "alternatives" + MD)
"""Pages without columns beside the text."""

_LINK: Final = re.compile(
    r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Drop missing pages from the navigation, and add unlisted pages of the kit."""
    docs = Path(config["docs_dir"])
    known = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    known |= {page for name, page in ROOT_PAGES.items() if (ROOT / name).exists()}
    known |= set(_conformance_pages())
    listed = set(_paths(config["nav"]))
    extra = sorted(each for each in known - listed if each.startswith(KIT))
    config["nav"] = _existing(config["nav"], known)
    for section in config["nav"]:
        if f"{KIT}index.md" in _paths(section):
            next(iter(section.values())).extend(extra)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each file of ROOT_PAGES, and those of all facts."""
    for name, page in ROOT_PAGES.items():
        if (ROOT / name).exists():
            text = _rebased((ROOT / name).read_text("utf-8"))
            files.append(File.generated(config, page, content=text))
    for page, text in _conformance_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


@cache
def _conformance_pages() -> dict[str, str]:
    return {f"conformance/{letter}{MD}": text for letter, text in pages().items()}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Insert generated texts, and correct links that leave docs/."""
    folder = posixpath.dirname(page.file.src_uri)
    if folder in RECORDS:
        page.meta.setdefault("search", {"boost": 0.2})
    if page.file.src_uri in WIDE:
        page.meta.setdefault("hide", ["navigation", "toc"])
    return _outside_code(
        generated(markdown),
        lambda text: _LINK.sub(lambda match: _link(match, folder), text),
    )


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [path for item in items for path in _paths(item)]


def _existing(nav: list[Any], known: set[str]) -> list[Any]:
    kept: list[Any] = []
    for item in nav:
        if isinstance(item, str):
            kept += [item] if item in known else []
            continue
        for title, target in item.items():
            if isinstance(target, list):
                kept.append({title: _existing(target, known)})
            elif target in known:
                kept.append({title: target})
    return kept


def _rebased(text: str) -> str:
    """Return a root file's text as if it were in docs/."""

    def moved(match: re.Match[str]) -> str:
        if "://" in match["path"]:
            return match[0]
        path = posixpath.relpath(match["path"], "docs")
        return f"[{match['text']}]({path}{match['anchor'] or ''})"

    return _outside_code(text, lambda part: _LINK.sub(moved, part))


def _link(match: re.Match[str], folder: str) -> str:
    """Return a link for the site: the match itself, a page, or plain text."""
    if "://" in match["path"] or match["path"].startswith("mailto:"):
        return match[0]
    path = posixpath.normpath(posixpath.join("docs", folder, match["path"]))
    if path.startswith("docs/"):
        return match[0]
    if path == "README.md":
        path = "docs/index.md"
    page = f"docs/{ROOT_PAGES[path]}" if path in ROOT_PAGES else path
    if page.startswith("docs/"):
        target = posixpath.relpath(page, posixpath.join("docs", folder))
        return f"[{match['text']}]({target}{match['anchor'] or ''})"
    shown = match["text"].strip("`")
    return f"`{path}`" if shown in path else f"{match['text']} (`{path}`)"


def _outside_code(markdown: str, change: Any) -> str:
    """Apply a change to the parts of a page that are not fenced code."""
    parts = _FENCE.split(markdown)
    return "".join(
        part if number % 2 else change(part) for number, part in enumerate(parts)
    )
