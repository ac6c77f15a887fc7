"""Tests for Java properties files, which are parsed as by `java.util.Properties`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.cli.setting_sources import Property, parse_properties, read_properties
from coterie.errors import SettingError


# Expected values were computed by Properties.load of OpenJDK 17.
@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b", [("a", "b", 1)]),
        ("a = b ", [("a", "b ", 1)]),
        ("a:b", [("a", "b", 1)]),
        ("a b=c", [("a", "b=c", 1)]),
        ("a", [("a", "", 1)]),
        ("  a\t=\fb", [("a", "b", 1)]),
        ("a==b", [("a", "=b", 1)]),
        ("# c\n! d\n\na=b", [("a", "b", 4)]),
        ("a=b # c", [("a", "b # c", 1)]),
        ("a=b\\\n  c\nd=e", [("a", "bc", 1), ("d", "e", 3)]),
        ("a=b\\\r\n  c\r\nd=e", [("a", "bc", 1), ("d", "e", 3)]),
        ("a=b\\\\\nd=e", [("a", "b\\", 1), ("d", "e", 2)]),
        ("a=\\u00e4\\t\\n\\x", [("a", "\u00e4\t\nx", 1)]),
        ("a\\ b\\=c=d", [("a b=c", "d", 1)]),
        ("a=\\ b", [("a", " b", 1)]),
        ("a=1\na=2", [("a", "1", 1), ("a", "2", 2)]),
        ("# c\\\na=b", [("a", "b", 2)]),
        ("a=b\\", [("a", "b", 1)]),
        ("a=b\rc=d", [("a", "b", 1), ("c", "d", 2)]),
        ("=b", [("", "b", 1)]),
        ("a=\\ud83d\\ude00", [("a", "\U0001f600", 1)]),
        ("", []),
    ],
)
def test_properties_are_parsed_like_java_util_properties(
    text: str, properties: list[tuple[str, str, int]]
) -> None:
    assert parse_properties(text, "file") == [Property(*each) for each in properties]


def escaped(text: str) -> str:
    """Return a key or value with every character escaped."""
    units = text.encode("utf-16-be")
    return "".join(
        f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2)
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.slow
@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS), max_size=5))
def test_escaped_text_is_parsed_to_the_original(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in pairs)
    assert parse_properties(text, "file") == [
        Property(key, value, line) for line, (key, value) in enumerate(pairs, 1)
    ]


@settings(max_examples=40)
@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + 1
    try:
        properties = parse_properties(text, "file")
    except SettingError:
        assert "\\u" in text
    else:
        assert all(1 <= each.line <= lines for each in properties)


def test_the_error_of_half_a_surrogate_pair_contains_the_line() -> None:
    with pytest.raises(
        SettingError, match=r"^file line 2: .* half of a surrogate pair"
    ):
        parse_properties("a=b\nc=\\ud83d\n", "file")


def test_a_file_is_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"a=\xe4\n")
    assert read_properties(file) == [Property("a", "\u00e4", 1)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_with_a_byte_order_mark_is_unicode(
    encoding: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes("a=\u00e4\n".encode(encoding))
    assert read_properties(file) == [Property("a", "\u00e4", 1)]


def test_a_missing_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"cannot read .*none: No such file"):
        read_properties(tmp_path / "none")


def test_the_error_of_an_incomplete_escape_contains_the_line() -> None:
    with pytest.raises(
        SettingError, match=r"^file line 2 or after: .* is not a character"
    ):
        parse_properties("a=b\nc=C:\\users\n", "file")
