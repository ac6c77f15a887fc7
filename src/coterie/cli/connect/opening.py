"""From flags and the world around them to a client.

Rules of this file: nothing heavy is imported before a client is made.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coterie.errors import ClientError, SettingError

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient
    from coterie.client.settings.carried import Carried
    from coterie.client.settings.found import Findings, Found
    from coterie.client.settings.target import Target


def open_admin(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> AdminClient:
    """An `AdminClient` of the cluster that flags, environment, profile and file name.

    It connects when it is first asked something. Warnings go to stderr. Raises
    SettingError, whose sentence is for people, when no cluster is named or a setting
    cannot be.
    """
    target = read_target(options, environ)
    from coterie.client.admin.admin_client import AdminClient

    try:
        return AdminClient(target.bootstrap, target.options)
    except ClientError as error:
        raise SettingError(str(error)) from error


def read_target(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> Target:
    """Which cluster is meant and how it is talked to; `open_admin` says the rest."""
    from coterie.client.settings.target import make_target

    counts, said = _read(options, environ)
    target = make_target(counts)
    _tell((*said.warnings, *target.warnings), said.notes, options)
    return target


def read_carried(
    options: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> Carried:
    """The same, as settings that are carried to where connections are opened."""
    from coterie.client.settings.carried import Carried

    counts, said = _read(options, environ)
    carried = Carried.of_found(counts)
    _tell((*said.warnings, *carried.target().warnings), said.notes, options)
    return carried


def _read(
    options: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[Mapping[str, Found], Findings]:
    from coterie.cli.connect.sources import read_sources
    from coterie.client.settings.found import effective

    findings = read_sources(options, environ)
    return effective(findings), findings


def _tell(
    warnings: Sequence[str], notes: Sequence[str], options: argparse.Namespace
) -> None:
    for sentence in warnings:
        sys.stderr.write(f"coterie: warning: {sentence}\n")
    for sentence in notes if getattr(options, "verbose", False) else ():
        sys.stderr.write(f"coterie: {sentence}\n")
