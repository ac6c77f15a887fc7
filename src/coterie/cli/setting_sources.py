"""Read the sources of connection settings: options, environment, profile, file.

An earlier source takes precedence over a later one, and all over the defaults. The
profile "default" is read only when neither a profile nor a file is named, so that a
named one is not mixed with it.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from coterie.client import settings
from coterie.errors import SettingError
from coterie.files import (
    decode_text,
    dotted_names,
    expand_user,
    read_text,
    read_toml,
    user_directory,
)

_PREFIX: Final = "COTERIE_"


def _variable(name: str) -> str:
    return _PREFIX + name.upper().replace(".", "_").replace("-", "_")


_VARIABLES: Final = {
    "COTERIE_BOOTSTRAP_SERVER": "bootstrap.servers",
    **{
        _variable(name): name
        for name in (*settings.ALIASES, *settings.KEYS, "sasl.jaas.config")
    },
}
"""The setting of each environment variable."""
COMMAND_CONFIG: Final = "COTERIE_COMMAND_CONFIG"
PROFILE: Final = "COTERIE_PROFILE"
PROFILES: Final = "COTERIE_PROFILES"
_DEFAULT_PROFILE: Final = "default"
_BASE_FILE: Final = "command.config"
"""The key of a profile that names a file with further settings."""


_KEY_PART: Final = r"""[\w-]+|"[^"]*"|'[^']*'"""
_TABLE: Final = re.compile(r"\s*\[(?P<table>[^\[\]]+)\]\s*(?:#.*)?$")
_ASSIGNMENT: Final = re.compile(
    rf"\s*(?P<key>(?:{_KEY_PART})(?:\s*\.\s*(?:{_KEY_PART}))*)\s*="
)
_LONG_QUOTES: Final = ('"""', "'''")


class Profile(NamedTuple):
    """A profile: its settings, and the file with further settings."""

    file: Path
    settings: dict[str, str]
    sources: dict[str, settings.Source]
    """The place of each setting."""
    command_config: Path | None


def read_sources(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> settings.CollectedSettings:
    """Return the settings of all sources. Raises SettingError for a source that cannot
    be read and for an unknown setting."""
    collected = settings.CollectedSettings()
    named = _option(options, "command_config") or environ.get(COMMAND_CONFIG)
    profile = _profile(options, environ, is_file_named=bool(named))
    file = expand_user(named) if named else profile and profile.command_config
    if file:
        _read_file(collected, file)
    if profile:
        for name, value in profile.settings.items():
            collected.add(name, value, profile.sources[name])
        _check_mode(collected, profile.file)
    _read_environment(collected, environ)
    _read_flags(collected, options)
    return collected


def _option(options: argparse.Namespace, name: str) -> Any:
    """Return the value of an option; None when the command does not have it."""
    return getattr(options, name, None)


# Options.


def _read_flags(
    collected: settings.CollectedSettings, options: argparse.Namespace
) -> None:
    for assignment in _option(options, "overrides") or ():
        name, equals, value = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise SettingError(
                f"-X {assignment} is not KEY=VALUE; write for example -X client.id=me"
            )
        if settings.is_secret(name) or settings.is_private_key(value):
            raise SettingError(
                f"-X {name}: all users of this machine can read a secret on a command "
                "line; put it into a profile, the file of --command-config, or "
                f"{_variable(settings.canonical(name))}"
            )
        collected.add(name, value.strip(), settings.Source("flag", "-X"))
    if servers := _option(options, "bootstrap_server"):
        collected.add(
            "bootstrap.servers", servers, settings.Source("flag", "--bootstrap-server")
        )
    if timeout_ms := _option(options, "timeout"):
        where = settings.Source("flag", "--timeout")
        collected.add("default.api.timeout.ms", str(timeout_ms), where)


# The environment.


def _read_environment(
    collected: settings.CollectedSettings, environ: Mapping[str, str]
) -> None:
    for variable, name in _VARIABLES.items():
        if variable in environ:
            collected.add(name, environ[variable], settings.Source("env", variable))
    known = [*_VARIABLES, COMMAND_CONFIG, PROFILE, PROFILES]
    for variable in sorted(environ):
        if variable.startswith(_PREFIX) and variable not in known:
            near = settings.nearest(variable, known)
            hint = f"; did you mean {near}?" if near else ""
            collected.notes.append(
                f"environment variable {variable} is not a setting{hint}"
            )


# The file of --command-config.


def _read_file(collected: settings.CollectedSettings, file: Path) -> None:
    for key, value, line in read_properties(file):
        source = settings.Source("file", f"{file} line {line}", str(file), line)
        collected.add(key, value, source)
    _check_mode(collected, file)


def _check_mode(collected: settings.CollectedSettings, file: Path) -> None:
    """Add a warning when other users can read a file with secrets."""
    if os.name != "posix" or not collected.has_secret_from(str(file)):
        return
    if file.stat().st_mode & 0o077:
        collected.warnings.append(
            f"{file} contains secrets and other users can read it; chmod 600 {file}"
        )


# Profiles.


def profiles_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the profiles file. Raises SettingError."""
    if PROFILES in environ:
        return expand_user(environ[PROFILES])
    config = user_directory(environ, "XDG_CONFIG_HOME", ".config")
    return config / "coterie" / "profiles.toml"


def profile_names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the profiles. Raises SettingError."""
    profiles = read_toml(profiles_file(environ))
    return [name for name, table in profiles.items() if isinstance(table, dict)]


def _profile(
    options: argparse.Namespace, environ: Mapping[str, str], *, is_file_named: bool
) -> Profile | None:
    name = _option(options, "profile") or environ.get(PROFILE)
    try:
        file = profiles_file(environ)
    except SettingError:
        if name:
            raise
        return None
    if not name and (is_file_named or not file.is_file()):
        return None
    profiles = read_toml(file)
    if not name and _DEFAULT_PROFILE not in profiles:
        return None
    name = name or _DEFAULT_PROFILE
    if not isinstance(profiles.get(name), dict):
        known = ", ".join(sorted(profiles)) or "none"
        near = settings.nearest(name, profiles)
        hint = f"did you mean {near}? " if near else ""
        raise SettingError(
            f"there is no profile {name} in {file}; {hint}profiles: {known}"
        )
    lines = key_lines(read_text(file))
    values = dotted_names(profiles[name])
    sources = {key: _profile_source(name, file, key, lines) for key in values}
    texts = {key: _text(key, value, sources[key]) for key, value in values.items()}
    base_file = texts.pop(_BASE_FILE, None)
    for key, value in texts.items():
        if (
            known_key := settings.KEYS.get(settings.canonical(key))
        ) and known_key.kind is settings.Kind.PATH:
            texts[key] = str(_beside(file, value))
    return Profile(
        file, texts, sources, _beside(file, base_file) if base_file else None
    )


def _profile_source(
    name: str, file: Path, key: str, lines: Mapping[str, int]
) -> settings.Source:
    """Return the place of a profile's key; that of its table for a key of an inline
    table."""
    path = f"{name}.{key}"
    while path and path not in lines:
        path = path.rpartition(".")[0]
    line = lines.get(path)
    where = f"{name} in {file}" + (f" line {line}" if line else "")
    return settings.Source("profile", where, str(file), line)


def key_lines(text: str) -> dict[str, int]:
    """Return the line of each key of a TOML text, by its dotted name with its table;
    `tomllib` has no positions."""
    lines: dict[str, int] = {}
    table: list[str] = []
    closing = ""
    for number, line in enumerate(text.splitlines(), 1):
        if closing:  # within a text of several lines
            closing = "" if closing in line else closing
        elif header := _TABLE.match(line):
            table = _key_parts(header["table"])
            lines.setdefault(".".join(table), number)
        elif assignment := _ASSIGNMENT.match(line):
            path = [*table, *_key_parts(assignment["key"])]
            lines.setdefault(".".join(path), number)
            opened = (each for each in _LONG_QUOTES if line.count(each) == 1)
            closing = next(opened, "")
    return lines


def _key_parts(text: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_KEY_PART, text)]


def _beside(file: Path, named: str) -> Path:
    """Resolve a path in a profile, relative to the directory of the profiles file."""
    return file.parent / expand_user(named)


def _text(key: str, value: object, source: settings.Source) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int():
            return str(value)
        case list() if all(isinstance(each, str) for each in value):
            return ",".join(value)
    raise SettingError(f"{source}: {key} must be text, a number, or true or false")


# Java properties files.

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class Property(NamedTuple):
    """A property, and the line on which it begins."""

    key: str
    value: str
    line: int


def read_properties(file: Path) -> list[Property]:
    r"""Return the properties of a file in their order. Raises SettingError.

    The syntax is that of `java.util.Properties`: Latin-1, escapes like `\u00e4`, a
    backslash at the end of a continued line, and `=`, `:` or spaces as separator. A
    file with a byte order mark is Unicode, which Java cannot read.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SettingError(f"cannot read {file}: {error.strerror}") from error
    try:
        return parse_properties(decode_text(data, "latin-1"), str(file))
    except UnicodeDecodeError as error:
        raise SettingError(f"cannot read {file}: {error}") from error


def parse_properties(text: str, where: str) -> list[Property]:
    """Return the properties of a text in their order. Raises SettingError."""
    from javaproperties import InvalidUEscapeError, KeyValue, parse

    properties, line = [], 1
    try:
        for element in parse(StringIO(text, newline="")):
            if isinstance(element, KeyValue):
                try:
                    (element.key + element.value).encode()
                except UnicodeEncodeError:
                    raise SettingError(
                        f"{where} line {line}: an escape in {element.key!a} is half of "
                        "a surrogate pair; the other half must follow it"
                    ) from None
                properties.append(Property(element.key, element.value, line))
            line += len(_LINE_END.findall(element.source))
    except InvalidUEscapeError as error:
        raise SettingError(
            f"{where} line {line} or after: {error.escape!r} is not a character; "
            r"\u needs four hexadecimal digits, and a backslash is written \\"
        ) from error
    return properties
