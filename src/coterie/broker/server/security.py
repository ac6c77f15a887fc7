"""Authentication of clients by TLS and SASL, and the choice of the authorizer.

TLS follows Kafka's settings for PEM files (KIP-651): a keystore is a file with the
server's key, its certificate and intermediate certificates; a truststore is a file with
the certificates of the authorities that sign client certificates.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.auth.acl import ANONYMOUS, Principal, parse_principal
from coterie.auth.authorizer import AclAuthorizer, AllowAll, Authorizer
from coterie.broker.protocol.sasl import Authentication, Mechanisms
from coterie.broker.server.broker import Node
from coterie.broker.server.failed_attempts import FailedAttempts
from coterie.broker.server.log_limit import LimitedLog
from coterie.broker.server.password_checks import PasswordChecks
from coterie.errors import SettingError
from coterie.http_endpoint import is_loopback
from coterie.settings import Settings
from coterie.types import SecurityProtocol

if TYPE_CHECKING:
    from coterie.auth.certificate import PrincipalRules
    from coterie.auth.sasl import Lookup

_LOGGER = logging.getLogger(__name__)

_WORKERS: Final = 2
_CLIENT_CERTIFICATES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


# Authorization.


def choose_authorizer(settings: Settings, hosts: Iterable[str]) -> Authorizer:
    """Return the authorizer of a server that listens on these hosts.

    With authorizer=by-listener, the default, every operation is authorized while only
    this machine can connect. Otherwise ACLs decide; without bindings they allow super
    users only, and a warning explains how to grant access.
    """
    if settings.authorizer == "allow-all":
        return AllowAll()
    if settings.authorizer == "by-listener":
        remote = sorted(host for host in hosts if not is_loopback(host))
        if not remote:
            return AllowAll()
        _warn_of_acls(settings, remote[0])
    return acl_authorizer(settings)


def acl_authorizer(settings: Settings) -> AclAuthorizer:
    """Return an authorizer without bindings."""
    super_users = map(parse_principal, settings.super_users)
    return AclAuthorizer(
        super_users=[principal for principal in super_users if principal],
        allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
        delete_implies_describe=settings.acl_delete_implies_describe,
    )


def _warn_of_acls(settings: Settings, host: str) -> None:
    names = ", ".join(settings.super_users)
    if names:
        allowed = f"only super users ({names}) and principals with an ACL have access"
        advice = "add ACLs as a super user (coterie acls add)"
    else:
        allowed = "no principal has access without an ACL, and there are no super users"
        advice = "set super.users and add ACLs as one of them (coterie acls add)"
    _LOGGER.warning(
        "other machines can connect to %s, so ACLs are enforced: %s; %s, or start with "
        "authorizer=allow-all to authorize every operation",
        host or "every address",
        allowed,
        advice,
    )


# Authentication.


class Security:
    """The authentication of the clients of a listener, by its security protocol.

    Raises SettingError for settings that do not fit the protocol, and for files with
    invalid content.
    """

    def __init__(
        self,
        protocol: SecurityProtocol,
        settings: Settings,
        lookup: Lookup,
        stand_in: Lookup,
    ) -> None:
        self.protocol = protocol
        self.tls: ssl.SSLContext | None = None
        self.timeout_s = settings.connection_authentication_timeout_ms / 1_000
        """The limit of a TLS handshake or a SASL authentication."""
        self.failure_delay_s = (
            settings.connection_failed_authentication_delay_ms / 1_000
        )
        """The delay of the response to a failed authentication."""
        # Few threads, so that guessing passwords cannot use all cores of the machine.
        self.workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="passwords")
        """The threads that check passwords; they start when first needed."""
        self._checks: PasswordChecks | None = None
        self._settings = settings
        self._mechanisms: Mechanisms = {}
        self._rules: PrincipalRules | None = None
        # The imports are local, because a listener without security does not need them.
        if protocol.has_tls:
            from coterie.auth.certificate import PrincipalRules

            self._rules = PrincipalRules(settings.ssl_principal_mapping_rules)
            if protocol.has_sasl and settings.ssl_client_auth != "none":
                _LOGGER.warning(
                    "ssl.client.auth has no effect: %s clients authenticate by SASL",
                    protocol,
                )
            self.tls = make_tls_context(
                settings, client_certificates=not protocol.has_sasl
            )
        if protocol.has_sasl:
            from coterie.auth.sasl import mechanisms

            names = settings.sasl_enabled_mechanisms
            self._mechanisms = mechanisms(names, lookup, stand_in)

    @property
    def delayed_checks(self) -> int:
        """The number of times the check of a password was delayed after failures."""
        return 0 if self._checks is None else self._checks.delayed_count

    def password_checks(
        self, loop: asyncio.AbstractEventLoop, node: Node
    ) -> PasswordChecks:
        """Return the checks of passwords, which all connections share."""
        if self._checks is None:
            settings = self._settings
            self._checks = PasswordChecks(
                FailedAttempts(
                    settings.sasl_failure_backoff_ms,
                    settings.sasl_failure_backoff_max_ms,
                ),
                workers=_WORKERS,
                loop=loop,
                clock=node.broker.clock,
                run_in_worker=partial(loop.run_in_executor, self.workers),
            )
        return self._checks

    def close(self) -> None:
        """Stop the threads that check passwords."""
        self.workers.shutdown(wait=False, cancel_futures=True)

    def new_authentication(self) -> Authentication | None:
        """Return the SASL state of a new connection; None without SASL."""
        if not self._mechanisms:
            return None
        settings = self._settings
        return Authentication(
            self._mechanisms,
            session_ms=settings.connections_max_reauth_ms,
            frame_bytes_max=settings.sasl_server_max_receive_size,
        )

    def principal(self, transport: asyncio.BaseTransport) -> Principal:
        """Return the principal of a connection without SASL, from its certificate.

        Raises ValueError when no rule of `ssl.principal.mapping.rules` matches.
        """
        tls = transport.get_extra_info("ssl_object")
        der = None if tls is None else tls.getpeercert(binary_form=True)
        if der is None:
            return ANONYMOUS
        from coterie.auth.certificate import distinguished_name

        assert self._rules is not None
        return Principal("User", self._rules.apply(distinguished_name(der)))


# TLS.


class _ServerContext(ssl.SSLContext):
    """The TLS context of a server, with the log of its failed handshakes."""

    handshakes: LimitedLog


class _LoggedHandshake(ssl.SSLObject):
    """A TLS connection that logs the reason of a failed handshake, as asyncio does
    not."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            assert isinstance(self.context, _ServerContext)
            self.context.handshakes.log(
                logging.INFO, "a TLS handshake failed: %s", error.reason or error
            )
            raise


def make_tls_context(
    settings: Settings, *, client_certificates: bool
) -> ssl.SSLContext:
    """Return the TLS context of the server.

    `ssl.client.auth` applies only with `client_certificates`. Raises SettingError for a
    missing or invalid file.
    """
    context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.handshakes = LimitedLog(_LOGGER)
    context.sslobject_class = _LoggedHandshake
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_keystore(context, settings)
    client_auth = settings.ssl_client_auth
    if client_certificates and client_auth != "none":
        _load_truststore(context, settings)
        context.verify_mode = _CLIENT_CERTIFICATES[client_auth]
    return context


def _load_keystore(context: ssl.SSLContext, settings: Settings) -> None:
    if not settings.ssl_keystore_location:
        raise SettingError("ssl.keystore.location must name a PEM file, to use TLS")
    path = Path(settings.ssl_keystore_location)
    password = settings.ssl_key_password
    try:
        # Without a password function, OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        text = path.read_text("utf-8", errors="replace")
        problem = _keystore_problem(error, text, has_password=bool(password))
        raise SettingError(
            f"ssl.keystore.location: {path} must be a PEM file with a certificate and "
            f"its private key; {problem}"
        ) from None
    except OSError as error:
        raise SettingError(
            f"ssl.keystore.location: {path} cannot be read: {error.strerror}"
        ) from None


def _keystore_problem(error: ssl.SSLError, text: str, *, has_password: bool) -> str:
    """Return the problem of a keystore, which OpenSSL's errors seldom explain."""
    if "BEGIN CERTIFICATE" not in text:
        return "it has no certificate"
    if "PRIVATE KEY" not in text:
        return "it has no private key"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "its key does not belong to its first certificate"
    if "ENCRYPTED" not in text:
        return f"it cannot be read: {error.reason or error}"
    if has_password:
        return "ssl.key.password does not decrypt its key"
    return "its key is encrypted, and ssl.key.password is not set"


def _load_truststore(context: ssl.SSLContext, settings: Settings) -> None:
    if not settings.ssl_truststore_location:
        raise SettingError(
            "ssl.truststore.location must name a PEM file, as ssl.client.auth is "
            f"{settings.ssl_client_auth}"
        )
    path = Path(settings.ssl_truststore_location)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise SettingError(
            f"ssl.truststore.location: {path} is not a PEM file of certificates"
        ) from None
    except OSError as error:
        raise SettingError(
            f"ssl.truststore.location: {path} cannot be read: {error.strerror}"
        ) from None
