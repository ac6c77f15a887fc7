"""A headless browser that opens a page in a frame and runs a script on it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_BUDGET_MS: Final = 20_000
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The outer page may access the frame, as both are files.
    "--allow-file-access-from-files",
    f"--virtual-time-budget={_BUDGET_MS}",
)
_HARNESS: Final = """<!doctype html><meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<iframe id="frame" src="{page}" style="width:{width}px;height:2000px;border:0"></iframe>
<pre id="found"></pre>
<script>
const until = async (is) => {{
  while (!is()) await new Promise((done) => setTimeout(done, 20));
}};
addEventListener("load", async () => {{
  const view = document.getElementById("frame").contentWindow;
  const page = view.document;
  const all = (query) => [...page.querySelectorAll(query)];
  const one = (query) => page.querySelector(query);
  let found;
  try {{
    await until(() => page.documentElement.dataset.ready === "yes");
    found = await (async () => {{ {script} }})();
  }} catch (error) {{ found = {{ error: String(error) }}; }}
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script>
"""


def find_browser() -> str:
    """Return the command of Chromium; skip the test when there is none."""
    for name in _NAMES:
        if command := shutil.which(name):
            return command
    pytest.skip("NO BROWSER: install Debian's package chromium to check the report")


def run_script(
    page: Path, script: str, folder: Path, *, width: int = 1000, dark: bool = False
) -> Any:
    """Run a script on a page and return its result.

    The script is the body of an async function with `view`, `page`, `all(query)`,
    `one(query)` and `until(condition)` of the page.
    """
    harness = folder / "harness.html"
    harness.write_text(
        _HARNESS.format(page=page.as_uri(), width=width, script=script), "utf-8"
    )
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    profile = folder / "profile"
    command = [find_browser(), *_FLAGS, scheme, f"--user-data-dir={profile}"]
    done = subprocess.run(
        [*command, "--dump-dom", harness.as_uri()],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    shutil.rmtree(profile, ignore_errors=True)
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, f"the browser printed no page: {done.stderr[-2000:]}"
    assert match[1], f"the page did not get ready: {done.stderr[-2000:]}"
    found = json.loads(html.unescape(match[1]))
    assert not (isinstance(found, dict) and "error" in found), found
    return found
