"""Reads every source of settings: flags, the environment, a profile, a file, defaults.

The first counts most. The profile called "default" is only read when neither a profile
nor a file is named: whoever names one means that and not a mixture.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from coterie.client.settings.found import Findings, Source, nearest
from coterie.client.settings.keys import (
    ALIASES,
    KEYS,
    Kind,
    canonical,
    is_private_key,
    is_secret,
)
from coterie.errors import SettingError

_PREFIX: Final = "COTERIE_"
_OWN: Final = {
    "COTERIE_BOOTSTRAP_SERVER": "bootstrap.servers",
    **{
        _PREFIX + name.upper().replace(".", "_").replace("-", "_"): name
        for name in (*ALIASES, *KEYS, "sasl.jaas.config")
    },
}
"""Variables of settings."""
COMMAND_CONFIG: Final = "COTERIE_COMMAND_CONFIG"
PROFILE: Final = "COTERIE_PROFILE"
PROFILES: Final = "COTERIE_PROFILES"
_DEFAULT_PROFILE: Final = "default"
_NAMED_FILE: Final = "command.config"
"""What a profile calls the file that it builds on."""


class Profile(NamedTuple):
    """A profile that counts: its settings, and the file that it builds on."""

    file: Path
    source: Source
    settings: dict[str, str]
    command_config: Path | None


def read_sources(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> Findings:
    """All settings of all sources. Raises SettingError for a source that cannot be
    read, and for names in it that are wrong."""
    findings = Findings()
    named = _flag(options, "command_config") or environ.get(COMMAND_CONFIG)
    profile = _profile(options, environ, is_file_named=bool(named))
    file = Path(named).expanduser() if named else profile and profile.command_config
    if file:
        _read_file(findings, file)
    if profile:
        for name, value in profile.settings.items():
            findings.add(name, value, profile.source)
        _check_mode(findings, profile.file)
    _read_environment(findings, environ)
    _read_flags(findings, options)
    return findings


def _flag(options: argparse.Namespace, name: str) -> Any:
    """A flag's value; None when the command has no such flag."""
    return getattr(options, name, None)


# Flags.


def _read_flags(findings: Findings, options: argparse.Namespace) -> None:
    for assignment in _flag(options, "overrides") or ():
        name, equals, value = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise SettingError(
                f"-X {assignment} sets nothing; write -X KEY=VALUE, "
                "for example -X client.id=me"
            )
        if is_secret(name) or is_private_key(value):
            raise SettingError(
                f"-X {name}: a secret on the command line is seen by everybody on this "
                "machine; put it into a profile, the file of --command-config, "
                f"or {_variable(name)}"
            )
        findings.add(name, value.strip(), Source("flag", "-X"))
    if servers := _flag(options, "bootstrap_server"):
        findings.add("bootstrap.servers", servers, Source("flag", "--bootstrap-server"))
    if timeout_ms := _flag(options, "timeout"):
        where = Source("flag", "--timeout")
        findings.add("default.api.timeout.ms", str(timeout_ms), where)


def _variable(name: str) -> str:
    return _PREFIX + canonical(name).upper().replace(".", "_").replace("-", "_")


# The environment.


def _read_environment(findings: Findings, environ: Mapping[str, str]) -> None:
    for variable, name in _OWN.items():
        if variable in environ:
            findings.add(name, environ[variable], Source("env", variable))
    known = [*_OWN, COMMAND_CONFIG, PROFILE, PROFILES]
    for variable in sorted(environ):
        if variable.startswith(_PREFIX) and variable not in known:
            near = nearest(variable, known)
            hint = f"; did you mean {near}?" if near else ""
            findings.notes.append(f"env {variable} is no setting{hint}")


# Files.


def _read_file(findings: Findings, file: Path) -> None:
    from coterie.cli.connect.properties import read_properties

    for key, value, line in read_properties(file):
        findings.add(key, value, Source("file", f"{file} line {line}"))
    _check_mode(findings, file)


def _check_mode(findings: Findings, file: Path) -> None:
    """Warn of a file with secrets that others may read."""
    if os.name != "posix" or not findings.has_secret_from(str(file)):
        return
    if file.stat().st_mode & 0o077:
        findings.warnings.append(
            f"{file} holds secrets and others may read it; chmod 600 {file}"
        )


# Profiles.


def profiles_file(environ: Mapping[str, str]) -> Path:
    """Where profiles are kept."""
    if PROFILES in environ:
        return Path(environ[PROFILES]).expanduser()
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return (Path(base) / "coterie" / "profiles.toml").expanduser()


def _profile(
    options: argparse.Namespace, environ: Mapping[str, str], *, is_file_named: bool
) -> Profile | None:
    name = _flag(options, "profile") or environ.get(PROFILE)
    file = profiles_file(environ)
    if not name and (is_file_named or not file.is_file()):
        return None
    profiles = _read_profiles(file)
    if not name and _DEFAULT_PROFILE not in profiles:
        return None
    name = name or _DEFAULT_PROFILE
    if not isinstance(profiles.get(name), dict):
        there = ", ".join(sorted(profiles)) or "none"
        near = nearest(name, profiles)
        hint = f"did you mean {near}? " if near else ""
        raise SettingError(
            f"there is no profile {name} in {file}; {hint}there are: {there}"
        )
    source = Source("profile", f"{name} in {file}")
    settings = {
        key: _text(key, value, source) for key, value in _flat(profiles[name], "")
    }
    below = settings.pop(_NAMED_FILE, None)
    for key, value in settings.items():
        if (known := KEYS.get(canonical(key))) and known.kind is Kind.PATH:
            settings[key] = str(_beside(file, value))
    return Profile(file, source, settings, _beside(file, below) if below else None)


def _read_profiles(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        with file.open("rb") as opened:
            return tomllib.load(opened)
    except OSError as error:
        raise SettingError(
            f"the profiles in {file} cannot be read: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} is not TOML: {error}") from error


def _beside(file: Path, named: str) -> Path:
    """A path in a profile begins at the folder of the profiles."""
    return file.parent / Path(named).expanduser()


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    """`client.id = "me"` is a table in a table to TOML, unless it is quoted."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(key: str, value: object, source: Source) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int():
            return str(value)
        case list() if all(isinstance(each, str) for each in value):
            return ",".join(value)
    raise SettingError(f"{source}: {key} must be text, a number, or true or false")
