"""Which authorizer a server starts with, by its settings and by who can reach it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from ipaddress import ip_address

from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import AllowAll, Authorizer, parse_principal
from coterie.settings import Settings

_LOGGER = logging.getLogger(__name__)


def choose_authorizer(settings: Settings, hosts: Iterable[str]) -> Authorizer:
    """The authorizer of a server that listens on these hosts.

    Without a word in the settings everybody may do everything as long as only this
    machine can connect. Otherwise access control lists count, and the log says so, and
    what to do: at first nobody but super users may do anything.
    """
    if settings.authorizer == "allow-all":
        return AllowAll()
    if settings.authorizer == "by-listener":
        open_to = sorted(host for host in hosts if not is_loopback(host))
        if not open_to:
            return AllowAll()
        _LOGGER.warning("%s", _advice(settings, open_to[0]))
    super_users = map(parse_principal, settings.super_users)
    return AclAuthorizer(
        super_users=[principal for principal in super_users if principal],
        allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
        delete_implies_describe=settings.acl_delete_implies_describe,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a host; a name but localhost may be
    anything's."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _advice(settings: Settings, host: str) -> str:
    named = ", ".join(settings.super_users)
    who = f"super users ({named})" if named else "nobody"
    first = "let them add ACLs" if named else "name super.users, who add ACLs then"
    return (
        f"other machines can reach {host or 'every address'}, so access control lists "
        f"count: {who} may do everything, others what an ACL allows; {first} (coterie "
        "acls add), or start with authorizer=allow-all to let everybody do everything"
    )
