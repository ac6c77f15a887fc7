"""Tests for the connection options, and for the client made from them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coterie.cli.connect import open_admin
from coterie.client.admin.admin_client import AdminClient
from coterie.errors import SettingError
from tests.cli.settings_home import SettingsHome, parse


def test_the_returned_client_is_not_connected(home: SettingsHome) -> None:
    admin = open_admin(parse("--bootstrap-server", "nowhere:1"), home.environ)
    assert isinstance(admin, AdminClient)


def test_the_namespace_may_lack_connection_options(home: SettingsHome) -> None:
    options = parse("--bootstrap-server", "nowhere:1")
    for name in ("profile", "overrides", "timeout", "verbose", "command_config"):
        delattr(options, name)
    assert isinstance(open_admin(options, home.environ), AdminClient)


@pytest.mark.parametrize("address", ["nowhere", "nowhere:x", ","])
def test_an_invalid_address_is_a_setting_error(
    address: str, home: SettingsHome
) -> None:
    with pytest.raises(SettingError, match="write HOST:PORT"):
        open_admin(parse("--bootstrap-server", address), home.environ)


def test_warnings_are_always_printed_and_notes_with_verbose(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home.write("client.properties", "group.id=g\nclient.idd=x\n")
    arguments = ["--bootstrap-server", "a:1", "--command-config", str(file)]
    warning = (
        f"coterie: warning: {file} line 2: there is no setting client.idd; "
        "did you mean client.id?\n"
    )
    open_admin(parse(*arguments), home.environ)
    assert capsys.readouterr().err == warning
    open_admin(parse(*arguments, "--verbose"), home.environ)
    note = f"coterie: {file} line 1: group.id has no effect on this client\n"
    assert capsys.readouterr().err == warning + note


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "soon", "2147483648"])
def test_a_timeout_is_a_whole_number_of_milliseconds(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        parse("--timeout", text)
    assert exited.value.code == 2
    assert "milliseconds" in capsys.readouterr().err


def test_options_are_declared_without_heavy_imports() -> None:
    heavy = {"asyncio", "ssl", "tomllib", "javaproperties", "scramp", "cryptography"}
    program = (
        "import sys, argparse; from coterie.cli.connect import *; "
        "add_connection_options(argparse.ArgumentParser()); "
        f"sys.exit(' '.join({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, stderr=-1)
    assert done.stderr.strip() == b""
