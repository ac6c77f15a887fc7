"""Add a user to the data of a server that does not run, or change the password.

The password is asked for at a terminal; otherwise it is the first line of stdin, or of
--password-file. It is never an option: others can read command lines. Users of a
running server are changed through it, by any client's AlterUserScramCredentials.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.cli.users.data import add_data_option, with_store
from coterie.types import ScramMechanism

if TYPE_CHECKING:
    from coterie.server.user_store import UserStore

EXAMPLES: Final = """\
examples:
  coterie users add admin
      ask for a password twice; the user can come by PLAIN and by SCRAM
  coterie users add app --data /var/lib/coterie --password-file app.secret
      take the password from a file
  pass show kafka/app | coterie users add app --mechanism SCRAM-SHA-512
      from another program; for one mechanism, and PLAIN

exit codes: 0 added, 1 the data could not be changed, 2 asked for wrongly
"""

_ITERATIONS: Final = 4_096
_MECHANISMS: Final = {each.sasl_name: each for each in ScramMechanism}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("user", metavar="USER", help="the user's name")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        help="take the password from the first line of a file",
    )
    parser.add_argument(
        "--mechanism",
        dest="mechanisms",
        action="append",
        choices=list(_MECHANISMS),
        help="keep the password for this mechanism only; may be repeated (default: "
        "for all)",
    )
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=int,
        default=_ITERATIONS,
        help="how often the password is hashed: 4096 to 16384 (default %(default)s)",
    )
    add_data_option(parser)


def run(options: argparse.Namespace) -> int:
    """Add the user."""
    from coterie.auth.scram import ITERATIONS_MAX, ITERATIONS_MIN
    from coterie.errors import SettingError

    if not ITERATIONS_MIN <= options.iterations <= ITERATIONS_MAX:
        raise SettingError(
            f"--iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}, "
            f"not {options.iterations}"
        )
    if not options.user:
        raise SettingError("a user's name must not be empty")
    _check_text("a user's name", options.user)
    password = read_password(options)
    _check_text("the password", password)

    def add(store: UserStore) -> int:
        from coterie.server.passwords import password_entry

        store.write(
            password_entry(
                options.user, _MECHANISMS[name], password, options.iterations
            )
            for name in options.mechanisms or _MECHANISMS
        )
        print(f"{options.user} is in {options.data}")
        return 0

    return with_store(options, add, may_be_new=True)


def _check_text(what: str, text: str) -> None:
    """Raise SettingError for bytes that were no UTF-8, and so are nobody's."""
    from coterie.errors import SettingError

    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingError(f"{what} must be UTF-8") from None


def read_password(options: argparse.Namespace) -> str:
    """The password. Raises SettingError when there is none."""
    from coterie.errors import SettingError

    if options.password_file is not None:
        password = _first_line(options.password_file)
    elif sys.stdin.isatty():
        password = _ask()
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise SettingError("the password must not be empty")
    return password


def _ask() -> str:
    from getpass import getpass

    from coterie.errors import SettingError

    password = getpass("password: ")
    if getpass("once more: ") != password:
        raise SettingError("these were two different passwords")
    return password


def _first_line(path: Path) -> str:
    from coterie.errors import SettingError

    try:
        with path.open(encoding="utf-8") as opened:
            return opened.readline().rstrip("\r\n")
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is not UTF-8: {error}") from error
