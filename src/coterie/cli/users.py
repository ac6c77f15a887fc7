"""`coterie users`: the SASL/SCRAM users in the data of a server that is not running.

Users of a running server are changed with AlterUserScramCredentials (KIP-554), from any
client.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from coterie.cli.command import Command, add_output_options
from coterie.cli.output.emit import emit
from coterie.cli.output.outcome import Column, Outcome, Role
from coterie.cli.serve import add_data_option
from coterie.errors import LogError, SettingError
from coterie.files import read_text
from coterie.types import ScramMechanism

if TYPE_CHECKING:
    from coterie.broker.server.users import UserStore

StoreWork: TypeAlias = "Callable[[argparse.Namespace, UserStore], int]"

_ITERATIONS: Final = 4_096
_MECHANISMS: Final = {each.sasl_name: each for each in ScramMechanism}


def _declare_user(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="user name")


def _with_store(
    options: argparse.Namespace, work: StoreWork, *, may_create: bool = False
) -> int:
    """Open the data directory and do the work; return the exit code.

    `may_create` allows a directory that does not exist yet.
    """
    from coterie.broker.server.users import UserStore

    try:
        if not may_create and not options.data.is_dir():
            raise LogError(
                f"there is no directory {options.data}; name the server's with --data"
            )
        with UserStore(options.data) as store:
            return work(options, store)
    except LogError as error:
        sys.stderr.write(f"coterie users: {error}\n")
        return 1


def list_users(options: argparse.Namespace, store: UserStore) -> int:
    """Print the users, and the iterations of each of their SCRAM mechanisms."""
    names = store.users.names()
    credentials = {name: store.users.credentials(name) for name in names}
    outcome = Outcome(
        schema="coterie.users.list",
        columns=(
            Column("user", "USER", role=Role.IDENTITY),
            Column("iterations", "MECHANISMS", role=Role.TEXT),
        ),
        items=tuple(
            {
                "user": name,
                "iterations": {
                    each.sasl_name: credentials[name][each].iterations
                    for each in sorted(credentials[name])
                },
                "error": None,
            }
            for name in names
        ),
        summary={"users": len(names)},
    )
    return emit(outcome, options)


LIST: Final = Command(
    description="List the users in the data of a server that is not running.",
    examples="""\
examples:
  coterie users list --data /var/lib/coterie
      every user, with mechanisms and iterations
  coterie users list --output json
      the same for programs

exit codes: 0 success, 1 the data could not be read
""",
    options=(add_data_option, add_output_options),
    run=partial(_with_store, work=list_users),
)


def _declare_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        help="path of a file with the password in its first line",
    )
    parser.add_argument(
        "--mechanism",
        dest="mechanisms",
        action="append",
        choices=list(_MECHANISMS),
        help="mechanism to store the password for; may be repeated (default: all)",
    )
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=int,
        default=_ITERATIONS,
        help="SCRAM iterations: 4096 to 16384 (default %(default)s)",
    )


def add_user(options: argparse.Namespace) -> int:
    """Add a user or set the password. Raises SettingError for an invalid value."""
    from coterie.auth.scram import ITERATIONS_MAX, ITERATIONS_MIN

    if not ITERATIONS_MIN <= options.iterations <= ITERATIONS_MAX:
        raise SettingError(
            f"--iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}, "
            f"not {options.iterations}"
        )
    if not options.user:
        raise SettingError("the user name must not be empty")
    _check_utf8("the user name", options.user)
    password = read_password(options)
    _check_utf8("the password", password)

    def add(options: argparse.Namespace, store: UserStore) -> int:
        from coterie.broker.server.users import password_entry

        store.write(
            password_entry(
                options.user, _MECHANISMS[name], password, options.iterations
            )
            for name in options.mechanisms or _MECHANISMS
        )
        print(f"added user {options.user} to {options.data}")
        return 0

    return _with_store(options, add, may_create=True)


def _check_utf8(what: str, text: str) -> None:
    # Python decodes bytes of an argument that are not UTF-8 as lone surrogates.
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingError(f"{what} must be UTF-8") from None


def read_password(options: argparse.Namespace) -> str:
    """Read the password from the file, the terminal or stdin.

    Raises SettingError when it is empty or cannot be read.
    """
    if options.password_file is not None:
        password = _read_first_line(options.password_file)
    elif sys.stdin.isatty():
        from getpass import getpass

        password = getpass("password: ")
        if getpass("repeat password: ") != password:
            raise SettingError("the two passwords differ")
    else:
        password = sys.stdin.readline().removeprefix("\ufeff").rstrip("\r\n")
    if not password:
        raise SettingError("the password must not be empty")
    return password


def _read_first_line(path: Path) -> str:
    return read_text(path).partition("\n")[0].rstrip("\r")


ADD: Final = Command(
    description="""\
Add a user to the data of a server that is not running, or set the user's password.

The password is read from the terminal; otherwise from the first line of stdin or of
--password-file. No option takes the password itself, because other users can read
command lines. Users of a running server are changed with any client's
AlterUserScramCredentials.
""",
    examples="""\
examples:
  coterie users add admin
      read the password from the terminal; allow PLAIN and every SCRAM mechanism
  coterie users add app --data /var/lib/coterie --password-file app.secret
      read the password from a file
  pass show kafka/app | coterie users add app --mechanism SCRAM-SHA-512
      read it from another program; allow one mechanism, and PLAIN

exit codes: 0 success, 1 the data could not be changed, 2 usage error
""",
    options=(_declare_user, _declare_add, add_data_option),
    run=add_user,
)


def remove_user(options: argparse.Namespace, store: UserStore) -> int:
    """Remove all credentials of a user."""
    from coterie.broker.catalog.users import credential_entry

    mechanisms = list(store.users.credentials(options.user))
    if not mechanisms:
        sys.stderr.write(f"coterie users: there is no user {options.user!r}\n")
        return 1
    store.write(credential_entry(options.user, each, None) for each in mechanisms)
    print(f"removed user {options.user} from {options.data}")
    return 0


REMOVE: Final = Command(
    description="Remove a user from the data of a server that is not running.",
    examples="""\
examples:
  coterie users remove app --data /var/lib/coterie
      app cannot authenticate any more

exit codes: 0 success, 1 the user does not exist, or the data could not be changed
""",
    options=(_declare_user, add_data_option),
    run=partial(_with_store, work=remove_user),
)
