"""From flags and the world around them to a client.

Rules of this file: nothing heavy is imported before a client is made.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from coterie.errors import ClientError, SettingError

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient
    from coterie.client.options import ClientOptions


def open_admin(options: argparse.Namespace) -> AdminClient:
    """An `AdminClient` of the cluster that the flags and the environment name.

    It connects when it is first asked something. Raises SettingError, whose sentence
    is for people, when no cluster is named or a setting cannot be.
    """
    bootstrap = getattr(options, "bootstrap_server", None) or os.environ.get(
        "COTERIE_BOOTSTRAP_SERVER"
    )
    if not bootstrap:
        raise SettingError(
            "no cluster is named; say --bootstrap-server HOST:PORT, "
            "or set COTERIE_BOOTSTRAP_SERVER"
        )
    from coterie.client.admin.admin_client import AdminClient

    try:
        return AdminClient(bootstrap, _client_options(options))
    except ClientError as error:
        raise SettingError(str(error)) from error


def _client_options(options: argparse.Namespace) -> ClientOptions:
    from coterie.client.options import ClientOptions

    plain = ClientOptions()
    timeout_ms = getattr(options, "timeout", None) or plain.api_timeout_ms
    return ClientOptions(
        api_timeout_ms=timeout_ms,
        request_timeout_ms=min(timeout_ms, plain.request_timeout_ms),
        connect_timeout_ms=min(timeout_ms, plain.connect_timeout_ms),
    )
