"""From flags and the world around them to a client.

Rules of this file: nothing heavy is imported before a client is made.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coterie.errors import ClientError, SettingError

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient
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
    from coterie.cli.connect.sources import read_sources
    from coterie.client.settings.found import effective
    from coterie.client.settings.target import make_target

    findings = read_sources(options, environ)
    target = make_target(effective(findings))
    notes = findings.notes if getattr(options, "verbose", False) else []
    for sentence in (*findings.warnings, *target.warnings):
        sys.stderr.write(f"coterie: warning: {sentence}\n")
    for sentence in notes:
        sys.stderr.write(f"coterie: {sentence}\n")
    return target
