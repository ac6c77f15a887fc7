r"""Reads Java's properties files, with the line of each property.

Keys and values are as `java.util.Properties` reads them: Latin-1, escapes of Unicode
(`\u00e4`), lines that go on after a backslash, `=`, `:` or blanks in between.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from coterie.errors import SettingError

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class Property(NamedTuple):
    """One of them, and the line on which it begins."""

    key: str
    value: str
    line: int


def read_properties(file: Path) -> list[Property]:
    """Each property, in their order. Raises SettingError, which names the file."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    return parse_properties(data.decode("latin-1"), str(file))


def parse_properties(text: str, where: str) -> list[Property]:
    """Each property of a text, in their order. Raises SettingError."""
    from javaproperties import InvalidUEscapeError, KeyValue, parse

    found, line = [], 1
    try:
        for element in parse(StringIO(text, newline="")):
            if isinstance(element, KeyValue):
                found.append(_whole(Property(element.key, element.value, line), where))
            line += len(_LINE_END.findall(element.source))
    except InvalidUEscapeError as error:
        raise SettingError(
            f"{where} line {line} or after: {error.escape!r} is no character; "
            r"\u wants four hexadecimal digits, and a backslash is written \\"
        ) from error
    return found


def _whole(found: Property, where: str) -> Property:
    try:
        (found.key + found.value).encode()
    except UnicodeEncodeError:
        raise SettingError(
            f"{where} line {found.line}: an escape in {found.key!a} is half a "
            "character; the other half must follow it"
        ) from None
    return found
