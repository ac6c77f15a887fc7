"""Show every setting of the connection, and where its value comes from.

Flags count more than the environment, that more than a profile, that more than a file,
that more than defaults. Secrets are masked. Nothing is connected to.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.output.values import Item, Json
    from coterie.client.settings.found import Found

EXAMPLES: Final = """\
examples:
  coterie config explain
      what counts now, by environment and default profile
  coterie config explain --profile prod --command-config client.properties
      what these two come to
  coterie config explain --profile prod --wide
      with what each setting is for, and what was overridden
  coterie config explain -o json
      for programs

exit codes: 0 a client can be made of it, 1 it cannot, 2 a source cannot be read
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_connection_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show them. What would stop a client is a failure."""
    from coterie.cli.connect.sources import read_sources
    from coterie.cli.output.emit import emit
    from coterie.cli.output.values import Column, Failure, Outcome
    from coterie.client.settings.found import effective
    from coterie.client.settings.target import make_target
    from coterie.errors import SettingError

    findings = read_sources(options)
    counts = effective(findings)
    notes = [f"warning: {each}" for each in findings.warnings]
    failures = []
    try:
        notes += [f"warning: {each}" for each in make_target(counts).warnings]
    except SettingError as error:
        failures.append(Failure.of("setting", "", error))
    if options.verbose:
        notes += findings.notes
    outcome = Outcome(
        schema="coterie.config.setting",
        columns=(
            Column("setting", "SETTING"),
            Column("value", "VALUE", show=_first_line),
            Column("source", "SOURCE"),
            Column("written_as", "WRITTEN AS", is_wide=True),
            Column("overrides", "OVERRIDES", is_wide=True),
            Column("summary", "WHAT IT IS", is_wide=True),
        ),
        items=tuple(
            _item(name, found, findings.by_key.get(name, [])[:-1])
            for name, found in counts.items()
        ),
        failures=tuple(failures),
        notes=tuple(notes),
    )
    return emit(outcome, options)


def _item(name: str, found: Found, overridden: list[Found]) -> Item:
    from coterie.client.settings.keys import KEYS, is_private_key

    is_secret = not isinstance(found.value, str) or is_private_key(found.value)
    return {
        "setting": name,
        "value": _shown(str(found.value), is_secret=is_secret),
        "is_secret": is_secret,
        "source": str(found.source),
        "source_kind": found.source.kind,
        "written_as": found.written,
        "overrides": [str(each.source) for each in reversed(overridden)],
        "summary": KEYS[name].summary,
        "error": None,
    }


def _shown(text: str, *, is_secret: bool) -> str:
    """The text without what nobody may see: secrets, and a password in an address."""
    from coterie.client.secret import MASK

    return MASK if is_secret else re.sub(r"://[^/@\s]*@", f"://{MASK}@", text)


def _first_line(value: Json) -> str:
    """A text of certificates is told by its first line."""
    first, *more = str(value).splitlines() or [""]
    return f"{first} ..." if more else first
