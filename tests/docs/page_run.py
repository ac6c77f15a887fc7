"""Run the code blocks of a page of docs/ as a reader would, in order.

A block is a fence with a language, and maybe a title:

- ```python: executed; the names of earlier blocks are known. With a title, or when it
  defines tests, it is written to a file; `$ pytest` on the page, or else the end of the
  page, runs these tests.
- ```console: `$ command` and its output. `...` stands for text that varies; the number
  of spaces between words is not compared. `[exit code N]` ends the output of a command
  that fails. `coterie serve`, `coterie gateway run` and `coterie groups export` stay in
  the background until the end of the page.
- ```bash: run by bash, must succeed.
- ```toml, ```json: must parse. ```text title="output": the output of the block before.
- with a title, other languages too are files of the reader's directory.

Addresses on the page are mapped to the ports of the servers that run, and ids of plans
and snapshots to those that the commands print. A comment before a
fence, `<!-- not run: REASON -->` or `<!-- run by: PATH -->`, exempts the block.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.server_process import ServerProcess

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
COMMAND_S = 500.0
READY = re.compile(r"coterie ready on (?:http://)?(\S+)")
GATEWAY_READY = re.compile(r"coterie gateway ready on (\S+)")
CONTROL = re.compile(r"coterie control on http://(\S+)")
ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost|kafka\.example):9\d{3}")
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>not run|run by): (?P<reason>[^>]+?) -->\n\s*)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
TITLE = re.compile(r'title="([^"]+)"')
OPERATION = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b")
EXIT = re.compile(r"\[exit code (\d+)\]")


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    title: str
    text: str
    line: int
    mark: str
    """"not run" or "run by", or empty."""
    reason: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page that name a language."""
    found = []
    for match in FENCE.finditer(page):
        title = TITLE.search(match["info"])
        lines = match["text"].splitlines(keepends=True)
        text = "".join(line.removeprefix(match["indent"]) for line in lines)
        line = page.count("\n", 0, match.start("language")) + 1
        found.append(
            Block(
                match["language"],
                title[1] if title else "",
                text,
                line,
                match["mark"] or "",
                match["reason"] or "",
            )
        )
    return found


class Command(NamedTuple):
    """A command of a console block and its expected output."""

    line: str
    output: str
    code: int


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        while line.endswith("\\"):
            more, _, output = output.partition("\n")
            line = line[:-1] + more.removeprefix("> ").strip()
        code = EXIT.search(output)
        yield Command(line, EXIT.sub("", output), int(code[1]) if code else 0)


def matches(expected: str, actual: str) -> bool:
    """Return whether an output is as the page shows it."""
    parts = re.split(r"\.\.\.", _spaces(expected))
    pattern = ".*".join(map(re.escape, parts))
    return re.fullmatch(pattern, _spaces(actual), re.DOTALL) is not None


def _spaces(text: str) -> str:
    lines = (re.sub(r" +", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


class PageRun:
    """The directory, servers and Python names of a reader who follows a page."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.home = directory / "home"
        """The reader's directory."""
        self.home.mkdir()
        self._servers = contextlib.ExitStack()
        self.addresses: dict[str, str] = {}
        """The real address of each address on the page."""
        self._operations: dict[str, str] = {}
        """The real id of each id of an operation on the page."""
        self._names: dict[str, Any] = {"__name__": "page"}
        self._output = ""
        self._tests: list[str] = []
        self._tests_ran = False
        tools = directory / "bin"
        tools.mkdir()
        self._tool(tools / "coterie", "coterie.cli.main")
        self._tool(tools / "pytest", "pytest")
        (tools / "python").symlink_to(sys.executable)
        self.environment = {
            **{key: value for key, value in os.environ.items() if "PYTEST" not in key},
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "COLUMNS": "200",
        }

    @staticmethod
    def _tool(path: Path, module: str) -> None:
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        path.chmod(0o755)

    def __enter__(self) -> Self:
        self._before = Path.cwd()
        os.chdir(self.home)
        return self

    def __exit__(self, *_: object) -> None:
        os.chdir(self._before)
        self._servers.close()

    def serve(self, documented: str, *arguments: str) -> None:
        """Start a server for a documented address."""
        server = self._servers.enter_context(ServerProcess("--memory", *arguments))
        self.addresses[documented] = server.bootstrap

    def run(self, page: str) -> None:
        """Run all blocks; raises AssertionError with the line of the page."""
        for block in blocks(page):
            if block.mark:
                continue
            try:
                self._run(block)
            except Exception as error:
                error.add_note(f"in the block at line {block.line} of the page")
                raise
        if self._tests and not self._tests_ran:
            self._shell(f"pytest {' '.join(self._tests)}", 0)

    def _run(self, block: Block) -> None:
        text = self._real(block.text)
        is_test = block.language == "python" and re.search(
            r"^\s*(async )?def test_|^@pytest.fixture", text, re.MULTILINE
        )
        if block.title == "output":
            assert matches(block.text, self._documented(self._output)), self._output
        elif block.title or is_test:
            name = block.title or f"test_{len(self._tests)}.py"
            path = Path(name).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o600)
            self._tests += [name] if is_test else []
        elif block.language == "python":
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                exec(compile(text, "page", "exec"), self._names)
            self._output = shown.getvalue()
        elif block.language == "console":
            for command in commands(block.text):
                self._command(command)
        elif block.language == "bash":
            self._shell(text, 0)
        elif block.language == "toml":
            tomllib.loads(text)
        elif block.language == "json":
            json.loads(text)
        else:
            assert block.language in {"text", "properties"}, (
                f"no way to run {block.language}: give it a title to write it to a"
                " file, or say before it why it is not run"
            )

    def _command(self, command: Command) -> None:
        words = shlex.split(command.line, comments=True)
        self._tests_ran |= "pytest" in words
        is_exporter = words[:3] == ["coterie", "groups", "export"]
        if words[:3] == ["coterie", "gateway", "run"]:
            self._run_gateway(command)
        elif words[:2] == ["coterie", "serve"] or (
            is_exporter and "--once" not in words
        ):
            self._serve(command)
        elif words[0] == "unset":
            for name in words[1:]:
                del self.environment[name]
        elif words[0] == "export":
            for word in words[1:]:
                name, _, value = word.partition("=")
                self.environment[name] = self._real(value)
        else:
            output = self._shell(self._real(command.line), command.code)
            shown = OPERATION.findall(command.output)
            made = OPERATION.findall(output)
            self._operations |= dict(zip(shown, made, strict=False))
            self._output = self._documented(output)
            assert matches(command.output, self._output), (
                f"$ {command.line}\n{self._output}\nis not\n{command.output}"
            )

    def _serve(self, command: Command) -> None:
        process = self._start(ADDRESS.sub("127.0.0.1:0", command.line))
        ready = self._ready_line(process, READY)
        shown = ADDRESS.findall(command.line) or ["127.0.0.1:9092"]
        self.addresses[shown[0]] = ready[1]
        text = ready.string
        if "--control " in command.line:
            assert process.stdout is not None
            line = process.stdout.readline()
            control = CONTROL.match(line)
            assert control, line
            self.addresses[shown[1]] = control[1]
            text += line
        assert matches(command.output, self._documented(text)), text

    def _run_gateway(self, command: Command) -> None:
        """Start a node: its first unknown address is its own, on free ports."""
        shown = [
            each for each in ADDRESS.findall(command.line) if each not in self.addresses
        ]
        line = ADDRESS.sub(
            lambda match: self.addresses.get(match[0], "127.0.0.1:0"), command.line
        )
        line = re.sub(r"--metrics-port \d+", "--metrics-port 0", line)
        ready = self._ready_line(self._start(line), GATEWAY_READY)
        self.addresses[shown[0]] = ready[1]
        text = self._documented(ready.string)
        assert matches(command.output, text), text

    def _start(self, line: str) -> subprocess.Popen[str]:
        """Start a command that stays in the background."""
        with (self._directory / "server.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._servers.callback(self._stop, process)
        return process

    def _ready_line(
        self, process: subprocess.Popen[str], pattern: re.Pattern[str]
    ) -> re.Match[str]:
        assert process.stdout is not None
        match = pattern.match(process.stdout.readline())
        assert match, (self._directory / "server.log").read_text()
        return match

    @staticmethod
    def _stop(process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=COMMAND_S)

    def _shell(self, line: str, code: int) -> str:
        process = subprocess.run(
            ["bash", "-e", "-c", line],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert process.returncode == code, f"$ {line}\n{process.stdout}"
        return process.stdout

    def _real(self, text: str) -> str:
        text = ADDRESS.sub(lambda match: self.addresses.get(match[0], match[0]), text)
        return OPERATION.sub(
            lambda match: self._operations.get(match[0], match[0]), text
        )

    def _documented(self, text: str) -> str:
        for documented, real in (self.addresses | self._operations).items():
            text = text.replace(real, documented)
        return text.replace(f"{self.home}/", "").replace(str(self._directory), "~")
