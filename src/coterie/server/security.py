"""How the clients of a server show who they are: TLS, SASL, both or not at all."""

from __future__ import annotations

import asyncio
import logging
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from coterie.auth.authorizer import ANONYMOUS, Principal
from coterie.protocol.sasl import Authentication, Mechanisms
from coterie.settings import Settings
from coterie.types import SecurityProtocol

if TYPE_CHECKING:
    from coterie.auth.certificate import PrincipalRules
    from coterie.auth.sasl import Lookup

_LOGGER = logging.getLogger(__name__)

_WORKERS: Final = 2


class Security:
    """What the listener of a protocol asks of its clients.

    Raises SettingError for settings that do not fit the protocol, or name files that
    are not what they should be.
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
        self.patience_s = settings.connection_authentication_timeout_ms / 1_000
        """How long a client may take."""
        self.refusal_delay_s = (
            settings.connection_failed_authentication_delay_ms / 1_000
        )
        """How long it has to wait for a refusal."""
        self.workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="passwords")
        """The threads in which passwords are checked: few, so that who tries passwords
        does not take the machine from everybody else. They begin when needed."""
        self._settings = settings
        self._mechanisms: Mechanisms = {}
        self._rules: PrincipalRules | None = None
        if protocol.has_tls:
            self.tls = self._make_context()
        if protocol.has_sasl:
            self._mechanisms = self._make_mechanisms(lookup, stand_in)

    def close(self) -> None:
        """Check no more passwords."""
        self.workers.shutdown(wait=False, cancel_futures=True)

    def authentication(self) -> Authentication | None:
        """The authentication of a new connection; None where there is no SASL."""
        if not self._mechanisms:
            return None
        settings = self._settings
        return Authentication(
            self._mechanisms,
            session_ms=settings.connections_max_reauth_ms,
            frame_bytes_max=settings.sasl_server_max_receive_size,
        )

    def principal(self, transport: asyncio.BaseTransport) -> Principal:
        """Who a connection without SASL is from: the one its certificate names.

        Raises ValueError for a certificate whose name no rule maps.
        """
        secured = transport.get_extra_info("ssl_object")
        der = None if secured is None else secured.getpeercert(binary_form=True)
        if der is None:
            return ANONYMOUS
        from coterie.auth.certificate import distinguished_name

        assert self._rules is not None
        return Principal("User", self._rules.apply(distinguished_name(der)))

    def _make_context(self) -> ssl.SSLContext:
        from coterie.auth.certificate import PrincipalRules
        from coterie.server.tls import make_context

        self._rules = PrincipalRules(self._settings.ssl_principal_mapping_rules)
        asks = not self.protocol.has_sasl
        if not asks and self._settings.ssl_client_auth != "none":
            _LOGGER.warning(
                "ssl.client.auth is set, and %s clients are asked for no certificate",
                self.protocol,
            )
        return make_context(self._settings, asks_certificates=asks)

    def _make_mechanisms(self, lookup: Lookup, stand_in: Lookup) -> Mechanisms:
        from coterie.auth.sasl import mechanisms

        names = self._settings.sasl_enabled_mechanisms
        return mechanisms(names, lookup, stand_in)
