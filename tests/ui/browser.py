"""A headless Chromium that tests drive by its DevTools protocol over a pipe.

    with Browser(folder) as browser, browser.open(url) as tab:
        tab.until("document.querySelectorAll('.row').length > 3")
        tab.press("j")

Every wait is for a condition in the page, with a deadline.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from tests.support.waiting import eventually

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_CODES: Final = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36}
"""Windows' codes of keys that the browser itself acts on."""


class Browser:
    """A Chromium process; its tabs have separate cookies."""

    def __init__(self, folder: Path) -> None:
        command = next((each for name in _NAMES if (each := shutil.which(name))), None)
        if command is None:
            pytest.skip("NO BROWSER: install Debian's package chromium for the page")
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        self._ids = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

        def place_pipes() -> None:
            # Chromium reads commands from descriptor 3 and writes to 4. The copies keep
            # the originals out of the way.
            source, target = os.dup(to_browser), os.dup(from_browser)
            os.dup2(source, 3)
            os.dup2(target, 4)

        self._process = subprocess.Popen(
            [command, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place_pipes,  # noqa: PLW1509
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(
        self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False
    ) -> Tab:
        """Open a tab in a fresh context."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call(
            "Target.createTarget", url="about:blank", browserContextId=context
        )["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, session["sessionId"], context)
        tab.call("Page.enable")
        tab.call("Runtime.enable")
        tab.call("Log.enable")
        tab.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        tab.call("Page.navigate", url=url)
        return tab

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


class Tab:
    """A tab of the browser."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser = browser
        self._session = session
        self._context = context

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._browser.call(
            "Target.disposeBrowserContext", browserContextId=self._context
        )

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to the tab."""
        return self._browser.call(method, self._session, **params)

    def run(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        found = self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in found, (script, found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Evaluate an expression until it is true; return its value."""
        try:
            return eventually(lambda: self.run(script), expected=script)
        except AssertionError as error:
            text = self.run("document.body.innerText")
            raise AssertionError(f"{error}; the page shows:\n{text}") from None

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches, or ""."""
        query = json.dumps(selector)
        return str(self.run(f"document.querySelector({query})?.innerText ?? ''"))

    def until_text(self, selector: str, text: str) -> None:
        """Wait until the text of an element contains a text."""
        query, wanted = json.dumps(selector), json.dumps(text)
        self.until(
            f"document.querySelector({query})?.innerText.includes({wanted}) ?? false"
        )

    def click(self, selector: str) -> None:
        """Wait for an element that is not disabled, and click on it."""
        query = json.dumps(selector)
        self.until(f"document.querySelector({query})?.disabled === false")
        self.run(f"document.querySelector({query}).click()")

    def press(self, key: str) -> None:
        """Press and release a key."""
        extra: dict[str, Any] = {"windowsVirtualKeyCode": _CODES.get(key, 0)}
        if key == "Enter" or len(key) == 1:
            extra["text"] = "\r" if key == "Enter" else key
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Insert a text where the focus is."""
        self.call("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self, path: Path) -> None:
        """Write a picture of the window as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
