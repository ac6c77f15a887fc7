"""Asks at a terminal before something is done."""

from __future__ import annotations

import argparse
import sys

from coterie.cli.output.emit import Surroundings
from coterie.cli.output.values import Outcome, plain


def tell(where: Surroundings, sentence: str) -> None:
    """Say something to people, now."""
    where.stderr.write(plain(sentence) + "\n")
    where.stderr.flush()


def is_interactive(where: Surroundings) -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and where.stderr.isatty()


def ask(
    where: Surroundings, preview: Outcome, options: argparse.Namespace, question: str
) -> bool:
    """Show what is about to be done, and ask whether to do it; only "y" is a yes."""
    from coterie.cli.output.emit import render

    shown = argparse.Namespace(**{**vars(options), "output": "table"})
    where.stderr.writelines(render(preview, shown, where))
    where.stderr.write(f"{plain(question)} [y/N] ")
    where.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
