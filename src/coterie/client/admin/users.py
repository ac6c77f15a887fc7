"""Describe, set and delete SCRAM credentials of users (KIP-554).

Any broker serves DescribeUserScramCredentials (key 50); the controller serves
AlterUserScramCredentials (key 51). Salting takes milliseconds for each password and
runs in a thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coterie.auth.scram import ITERATIONS_MIN, salted_password
from coterie.client.admin.calls import call_controller
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Results, api_error, results_of
from coterie.client.secret import Secret
from coterie.errors import CoterieError
from coterie.types import ScramMechanism
from coterie.wire import messages as m


@dataclass(frozen=True, slots=True)
class ScramInfo:
    """A SCRAM credential of a user. Brokers return no salt and no key."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A password to set in place of the user's credential of this mechanism. It is
    salted and hashed before it is sent."""

    user: str
    mechanism: ScramMechanism
    password: Secret
    iterations: int = ITERATIONS_MIN
    """The number of iterations: 4,096 to 16,384, as Kafka requires."""
    salt: bytes | None = None
    """None generates a random salt, which is the safe choice."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


SALT_BYTES: Final = 32
_MECHANISMS: Final = frozenset(ScramMechanism)


class ScramUsers(Family):
    """Calls about SCRAM credentials of users."""

    async def describe(
        self, names: Iterable[str] | None = None
    ) -> Results[str, tuple[ScramInfo, ...]]:
        """Describe the SCRAM credentials of users; None means every user that has any.

        Mechanisms of newer brokers are left out. Raises ApiError, and
        UnsupportedByBroker for brokers before Kafka 2.7.
        """
        named = None if names is None else list(dict.fromkeys(names))
        if named == []:
            return Results()  # in the protocol, an empty list means all users
        request = m.DescribeUserScramCredentialsRequest(
            users=None if named is None else [m.UserName(name=name) for name in named]
        )
        response = await self._cluster.retrying(
            lambda: self._cluster.call(request, m.DescribeUserScramCredentialsResponse)
        )
        if response.error_code:
            raise api_error(
                response.error_code, "to describe users", response.error_message
            )
        values: dict[str, tuple[ScramInfo, ...]] = {}
        errors: dict[str, CoterieError] = {}
        for each in response.results:
            if each.error_code:
                errors[each.user] = api_error(
                    each.error_code, f"user {each.user}", each.error_message
                )
            else:
                values[each.user] = tuple(
                    ScramInfo(ScramMechanism(info.mechanism), info.iterations)
                    for info in each.credential_infos
                    if info.mechanism in _MECHANISMS
                )
        return Results(values, errors)

    async def alter(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, None]:
        """Set and delete SCRAM credentials, one change for each user (KIP-554).

        Passwords are salted and hashed before they are sent. Raises as
        `Topics.create` does.
        """
        wanted = list(changes)
        request = await asyncio.to_thread(_request, wanted)
        response = await call_controller(
            self._cluster,
            request,
            m.AlterUserScramCredentialsResponse,
            lambda response: (each.error_code for each in response.results),
        )
        return results_of(
            dict.fromkeys(each.user for each in wanted),
            {
                each.user: api_error(
                    each.error_code, f"user {each.user}", each.error_message
                )
                if each.error_code
                else None
                for each in response.results
            },
        )


class SyncScramUsers(SyncFamily[ScramUsers]):
    """The blocking methods of `ScramUsers`."""

    describe = blocking(ScramUsers.describe)
    alter = blocking(ScramUsers.alter)


def _request(
    changes: list[ScramUpsertion | ScramDeletion],
) -> m.AlterUserScramCredentialsRequest:
    return m.AlterUserScramCredentialsRequest(
        deletions=[
            m.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in changes
            if isinstance(each, ScramDeletion)
        ],
        upsertions=[
            _salted(each) for each in changes if isinstance(each, ScramUpsertion)
        ],
    )


def _salted(wanted: ScramUpsertion) -> m.ScramCredentialUpsertion:
    salt = wanted.salt if wanted.salt is not None else secrets.token_bytes(SALT_BYTES)
    return m.ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted_password(
            wanted.mechanism, wanted.password.reveal(), salt, wanted.iterations
        ),
    )
