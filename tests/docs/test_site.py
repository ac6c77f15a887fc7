"""The docs site builds without warnings, is complete and needs no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from coterie.cli.registry import COMMANDS
from coterie.settings import Settings
from tests.docs.page_run import DOCS, ROOT

BUILD_S = 240


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--site-dir",
            str(target),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    return target


class Loaded(HTMLParser):
    """Collects the addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in {"script", "img", "iframe", "source"} and named.get("src"):
            self.addresses.append(named["src"] or "")
        if tag == "link" and named.get("rel") != "canonical":
            self.addresses.append(named.get("href") or "")


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text("utf-8"))
        outside = [each for each in loaded.addresses if "//" in each]
        assert outside == [], page


@pytest.mark.slow
def test_every_page_has_its_html_and_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")
    for source in DOCS.rglob("*.md"):
        page = source.relative_to(DOCS).with_suffix(".html").as_posix()
        assert (site / page).exists()
        assert source.parent.name == "decisions" or f'href="{page}"' in home, page


@pytest.mark.slow
def test_links_to_sources_are_not_links_of_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        links = re.findall(r'href="([^"]+)"', page.read_text("utf-8"))
        assert [each for each in links if each.endswith((".py", ".md"))] == [], page


@pytest.mark.slow
def test_the_reference_has_every_command_and_setting(site: Path) -> None:
    commands = (site / "reference/commands.html").read_text("utf-8")
    for entry in COMMANDS:
        assert f"coterie {entry.name}" in commands
    settings = (site / "reference/settings.html").read_text("utf-8")
    for name in Settings.__dataclass_fields__:
        assert f"<code>{name.replace('_', '.')}</code>" in settings


@pytest.mark.slow
def test_search_finds_a_setting_and_a_function(site: Path) -> None:
    # A script, as pages from the disk cannot read JSON.
    index = (site / "search/search_index.js").read_text("utf-8")
    assert "group.consumer.session.timeout.ms" in index
    assert "fetch_many" in index
