"""The entry point of `coterie`.

Exit codes: 0 success, 1 failure of the run or of an item, 2 usage error, 3 a --fail-if
condition is true, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command

_GARBAGE_THRESHOLDS: Final = (50_000, 20, 20)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Raises SystemExit for --help and for a line that cannot be parsed, and
    ModuleNotFoundError for a library that no extra installs.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        try:
            return _run(words)
        finally:
            # A failure at exit would be reported with a traceback.
            sys.stdout.flush()
    except UnicodeEncodeError:
        # Python decodes bytes of an argument that are not UTF-8 as lone surrogates,
        # which only the path of a file may have.
        word = next(filter(_has_surrogates, words), None)
        if word is None:
            raise
        sys.stderr.write(f"coterie: the argument {word!a} is not UTF-8\n")
        return 2
    except OSError as error:
        from coterie.cli.output.emit import discard_output, is_closed_by_reader

        discard_output(sys.stdout)
        if is_closed_by_reader(error):
            return 0
        subject = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"coterie: {subject}{error.strerror or error}\n")
        return 1


def _run(words: Sequence[str]) -> int:
    if not __debug__:
        sys.stderr.write(
            "coterie does not run under python -O: its assertions stop a shard before "
            "it sends a wrong response to a client\n"
        )
        return 1
    # Most objects of a command live until it ends. With the default thresholds the
    # cyclic collector takes a tenth of a short run, a quarter with 65,000 groups.
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    if "_ARGCOMPLETE" in os.environ:
        from coterie.cli.completion import complete

        complete()
    called = find_command(words)
    options = None
    if called is None or not called.parses_itself:
        options = make_parser(called).parse_args(words)
    from coterie.errors import CoterieError, SettingError

    try:
        if options is None:
            assert called is not None, "only a known command parses itself"
            return int(called.load()(words[len(called.words) :]))
        return int(options.run(options))
    except CoterieError as error:
        from coterie.display import printable

        # A message may have a name that was chosen elsewhere.
        lines = map(printable, str(error).split("\n"))
        sys.stderr.write("coterie: " + "\n".join(lines) + "\n")
        return 2 if isinstance(error, SettingError) else 1
    except ModuleNotFoundError as error:
        from coterie.extras import EXTRA_OF, describe_missing

        library = (error.name or "").partition(".")[0]
        if library not in EXTRA_OF:
            raise
        sys.stderr.write(f"coterie: {describe_missing(library)}\n")
        return 2
    except KeyboardInterrupt:
        return 130


def _has_surrogates(text: str) -> bool:
    return text.encode(errors="ignore").decode() != text


if __name__ == "__main__":
    raise SystemExit(main())
