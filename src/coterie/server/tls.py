"""TLS at the server's end: certificates from PEM files, Kafka's settings (KIP-651).

A keystore is a file with the server's key and certificate, and whatever certificates
stand between that one and a root; a truststore, the certificates of who may sign those
of clients.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from coterie.errors import SettingError
from coterie.settings import Settings

_LOGGER = logging.getLogger(__name__)

_CLIENT_CERTIFICATES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class _Handshaking(ssl.SSLObject):
    """Says why a handshake failed: the event loop drops the connection in silence."""

    def do_handshake(self) -> None:
        """Go on with the handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            _LOGGER.info("a TLS handshake failed: %s", error.reason or error)
            raise


def make_context(settings: Settings, *, asks_certificates: bool) -> ssl.SSLContext:
    """What secures connections. Without `asks_certificates`, `ssl.client.auth` counts
    for nothing.

    Raises SettingError for files that are not there or not what they should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _Handshaking
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_key(context, settings)
    wanted = settings.ssl_client_auth
    if asks_certificates and wanted != "none":
        _load_trusted(context, settings)
        context.verify_mode = _CLIENT_CERTIFICATES[wanted]
    return context


def _load_key(context: ssl.SSLContext, settings: Settings) -> None:
    path = _file("ssl.keystore.location", settings.ssl_keystore_location)
    password = settings.ssl_key_password
    try:
        # Without a password of ours, the library would ask for one at the terminal.
        context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        text = path.read_text(errors="replace")
        why = _why(error, text, has_password=bool(password))
        raise SettingError(
            f"ssl.keystore.location: {path} must be a PEM file with a certificate and "
            f"the key that fits it; {why}"
        ) from None
    except OSError as error:
        raise SettingError(
            f"ssl.keystore.location: {path} cannot be read: {error.strerror}"
        ) from None


def _why(error: ssl.SSLError, text: str, *, has_password: bool) -> str:
    """What is wrong with a keystore. The library seldom says more than that it is."""
    if "BEGIN CERTIFICATE" not in text:
        return "it has no certificate"
    if "PRIVATE KEY" not in text:
        return "it has no key"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "its key is of another certificate than its first"
    if "ENCRYPTED" not in text:
        return f"it cannot be read: {error.reason or error}"
    if has_password:
        return "ssl.key.password does not open its key"
    return "its key is encrypted, and ssl.key.password is not set"


def _load_trusted(context: ssl.SSLContext, settings: Settings) -> None:
    path = _file(
        "ssl.truststore.location",
        settings.ssl_truststore_location,
        f", as ssl.client.auth is {settings.ssl_client_auth}",
    )
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise SettingError(
            f"ssl.truststore.location: {path} is no PEM file of certificates"
        ) from None
    except OSError as error:
        raise SettingError(
            f"ssl.truststore.location: {path} cannot be read: {error.strerror}"
        ) from None


def _file(name: str, location: str, because: str = ", to listen with TLS") -> Path:
    if not location:
        raise SettingError(f"{name} must name a PEM file{because}")
    return Path(location)
