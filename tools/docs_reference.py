"""Generate reference pages of the docs site: commands, settings, error codes.

`tools/docs_hooks.py` puts the texts in place of `<!-- generated: NAME -->` while the
site is built, so that they are never out of date and never edited.
"""

from __future__ import annotations

import ast
import html
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from coterie import settings as settings_module
from coterie.cli.parser import help_document
from coterie.cli.registry import FAMILIES
from coterie.settings import SECRETS, Settings
from coterie.wire.error_codes import ErrorCode

_ONLY: Final = re.compile(r"Coterie only(, in place of (?P<place>`[^`]+`))?:\s*")
_DEFAULT: Final = re.compile(r" \(default:? [^)]*\)")
_UNITS: Final[Mapping[str, str]] = {
    "_ms": "ms",
    "_bytes": "bytes",
    "_minutes": "minutes",
    "_seconds": "s",
    "_bytes_max": "bytes",
    "_max_size": "members",
    "_rate": "per second",
}
_KINDS: Final[Mapping[str, str]] = {
    "int": "integer",
    "bool": "boolean",
    "str": "string",
    "tuple[str, ...]": "list",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the server as the reference shows it."""

    section: str
    name: str
    kind: str
    default: str
    unit: str
    meaning: str
    is_only_here: bool


# ---------------------------------------------------------------------- commands


def commands_page() -> str:
    """Return Markdown for every command: its help, its options and its examples."""
    document = help_document()
    parts = []
    family = None
    for command in document["commands"]:
        head = command["name"].split()[0]
        if head in FAMILIES and head != family:
            parts.append(f"## {head}\n\n{FAMILIES[head]}.\n")
        family = head
        level = "###" if head in FAMILIES else "##"
        parts.append(_command(command, level))
    return "\n".join(parts)


def _command(command: Mapping[str, Any], level: str) -> str:
    name = command["name"]
    text = [f"{level} coterie {name}\n"]
    text.append(_prose(command.get("description") or f"{command['summary']}."))
    if command["arguments"]:
        text.append("| argument | meaning | default |\n|---|---|---|")
        text += map(_argument, command["arguments"])
        text.append("")
    examples = (command.get("examples") or "").strip()
    if examples:
        text.append(f"```text\n{examples}\n```\n")
    return "\n".join(text)


def _argument(argument: Mapping[str, Any]) -> str:
    value = argument["value"] or ""
    if choices := argument["choices"]:
        value = "{" + ",".join(map(str, choices)) + "}"
    names = [f"{name} {value}".strip() for name in argument["names"]] or [value]
    shown = ", ".join(f"`{name}`" for name in names).replace("|", "\\|")
    default = argument["default"]
    is_shown = default not in (None, False, "", [])
    text = argument["help"] or ""
    meaning = _cell(_DEFAULT.sub("", text) if is_shown else text)
    if argument["repeatable"] and "repeated" not in meaning:
        meaning += "; may be repeated" if argument["names"] else ", one or more"
    return f"| {shown} | {meaning} | {f'`{default}`' if is_shown else ''} |"


def _prose(text: str) -> str:
    """Return paragraphs of plain text as Markdown; indented ones stay as they are."""
    parts = []
    for paragraph in text.strip().split("\n\n"):
        if any(line.startswith("  ") for line in paragraph.splitlines()):
            parts.append(f"```text\n{paragraph}\n```\n")
        else:
            parts.append(f"{_escaped(paragraph)}\n")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    return re.sub(r"([*_`\[\]])", r"\\\1", html.escape(text, quote=False))


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


# ---------------------------------------------------------------------- settings


def settings_of_source() -> list[Setting]:
    """Return all settings in the order of their declaration, with their docstrings."""
    source = inspect.getsource(settings_module)
    lines = source.splitlines()
    declared = {each.name: each for each in fields(Settings)}
    [body] = [
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    ]
    found = []
    previous_end = body[0].lineno
    section = ""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign):
            continue
        for line in lines[previous_end - 1 : node.lineno - 1]:
            if line.strip().startswith("# "):
                section = line.strip().removeprefix("# ").rstrip(".")
        assert isinstance(node.target, ast.Name)
        assert node.end_lineno is not None
        previous_end = node.end_lineno
        name = node.target.id
        text = _docstring(after)
        found.append(
            Setting(
                section,
                name.replace("_", "."),
                _KINDS[ast.unparse(node.annotation)],
                _default(name, declared[name].default),
                _unit(name),
                _ONLY.sub(_replaced, text),
                text.startswith("Coterie only"),
            )
        )
    assert len(found) == len(declared), "every field is declared by an annotation"
    return found


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _replaced(match: re.Match[str]) -> str:
    return f"In place of {match['place']}: " if match["place"] else ""


def _default(name: str, value: Any) -> str:
    if name.replace("_", ".") in SECRETS or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value}`"


def _unit(name: str) -> str:
    suffixes = [each for each in _UNITS if name.endswith(each)]
    return _UNITS[max(suffixes, key=len)] if suffixes else ""


def settings_page() -> str:
    """Return Markdown for every setting of the server, by section."""
    parts = []
    section = None
    for each in settings_of_source():
        if each.section != section:
            section = each.section
            parts.append(f"\n## {section}\n")
            parts.append("| setting | type | default | unit | meaning |")
            parts.append("|---|---|---|---|---|")
        mark = " *" if each.is_only_here else ""
        meaning = _capitalized(each.meaning).replace("|", "\\|")
        parts.append(
            f"| `{each.name}`{mark} | {each.kind} | {each.default} | {each.unit} |"
            f" {meaning} |"
        )
    return "\n".join(parts) + "\n"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


# ------------------------------------------------------------------------- codes


def error_codes_page() -> str:
    """Return a table of Kafka's error codes that Coterie knows."""
    rows = (f"| {code.value} | `{code.name}` |" for code in ErrorCode)
    return "| code | name |\n|---|---|\n" + "\n".join(rows) + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands_page,
    "settings": settings_page,
    "error codes": error_codes_page,
}
_MARK: Final = re.compile(r"<!-- generated: ([a-z ]+) -->")


def generated(markdown: str) -> str:
    """Return a page with its marks replaced by the generated texts.

    Raises KeyError for an unknown mark.
    """
    return _MARK.sub(lambda match: PAGES[match[1]](), markdown)
