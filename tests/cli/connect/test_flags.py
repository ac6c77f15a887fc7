"""The connection's flags, and what a command gets for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coterie.cli.connect import open_admin
from coterie.client.admin.admin_client import AdminClient
from coterie.errors import SettingError
from tests.cli.connect.world import World, parse


def test_a_command_gets_a_client_that_has_not_connected(world: World) -> None:
    admin = open_admin(parse("--bootstrap-server", "nowhere:1"), world.environ)
    assert isinstance(admin, AdminClient)


def test_a_parser_with_few_of_the_flags_will_do(world: World) -> None:
    options = parse("--bootstrap-server", "nowhere:1")
    for name in ("profile", "overrides", "timeout", "verbose", "command_config"):
        delattr(options, name)
    assert isinstance(open_admin(options, world.environ), AdminClient)


@pytest.mark.parametrize("address", ["nowhere", "nowhere:x", ","])
def test_an_address_that_is_none_is_a_setting_that_cannot_be(
    address: str, world: World
) -> None:
    with pytest.raises(SettingError, match="say HOST:PORT"):
        open_admin(parse("--bootstrap-server", address), world.environ)


def test_warnings_are_for_all_and_notes_for_who_asks(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    file = world.write("client.properties", "group.id=g\nclient.idd=x\n")
    arguments = ["--bootstrap-server", "a:1", "--command-config", str(file)]
    warning = (
        f"coterie: warning: {file} line 2: there is no setting client.idd; "
        "did you mean client.id?\n"
    )
    open_admin(parse(*arguments), world.environ)
    assert capsys.readouterr().err == warning
    open_admin(parse(*arguments, "--verbose"), world.environ)
    note = f"coterie: {file} line 1: group.id means nothing to this client\n"
    assert capsys.readouterr().err == warning + note


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "soon", "2147483648"])
def test_a_time_out_is_a_whole_number_of_milliseconds(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse("--timeout", text)
    assert left.value.code == 2
    assert "milliseconds" in capsys.readouterr().err


def test_flags_are_declared_without_anything_heavy() -> None:
    heavy = {"asyncio", "ssl", "tomllib", "javaproperties", "scramp", "cryptography"}
    program = (
        "import sys, argparse; from coterie.cli.connect import *; "
        "add_connection_options(argparse.ArgumentParser()); "
        f"sys.exit(' '.join({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, stderr=-1)
    assert done.stderr.strip() == b""
