"""Whether members compute their group's assignment, and with what (E12-01)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer.client_side.values import (
    ClientAssignor,
    Offer,
    Readable,
)
from coterie.coordinator.consumer.member import Member
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode


def common_assignor(offers: Mapping[Offer, int], size: int) -> str | None:
    """The assignor that every member offers and whose metadata everybody can read; None
    when there is none, and then the server assigns.

    `offers` counts the members of each offer, `size` all members. Of several assignors,
    the one that most members name first; of those, the first by name.
    """
    if not offers or sum(offers.values()) < size:
        return None
    common = set.intersection(*({each.name for each in offer} for offer in offers))
    usable = {name for name in common if _is_readable(name, offers)}
    if not usable:
        return None
    votes: Counter[str] = Counter()
    for offer, count in offers.items():
        votes[next(each.name for each in offer if each.name in usable)] += count
    return min(usable, key=lambda name: (-votes[name], name))


def _is_readable(name: str, offers: Iterable[Offer]) -> bool:
    named = [each for offer in offers for each in _named(offer, name)]
    return max(each.minimum for each in named) <= min(each.maximum for each in named)


def _named(offer: Offer, name: str) -> list[Readable]:
    return [each for each in offer if each.name == name]


def check_offers(member: Member, offers: Iterable[Offer]) -> None:
    """Refuse a member whose assignors nobody could use together with it (E13-13);
    `offers` are those of the group.

    Raises:
        ApiError: UNSUPPORTED_ASSIGNOR, INVALID_REQUEST.
    """
    names = [each.name for each in member.client_assignors]
    if len(set(names)) != len(names) or not all(names):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "ClientAssignors need names of their own."
        )
    for each in member.client_assignors:
        if not each.minimum <= each.version <= each.maximum:
            raise _unsupported(each)
        for offer in offers:
            for theirs in _named(offer, each.name):
                if theirs.minimum > each.maximum or each.minimum > theirs.maximum:
                    raise _unsupported(each)


def _unsupported(assignor: ClientAssignor) -> ApiError:
    return ApiError(
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        f"ClientAssignor {assignor.name} with versions {assignor.minimum} to "
        f"{assignor.maximum}, writing {assignor.version}, cannot be used here.",
    )


def asks_for_assignment(before: Member | None, after: Member) -> bool:
    """Whether what a member offers is a reason for a new assignment: another list,
    other metadata, or a reason it gives (E6-08, E6-09, E13-12)."""
    was = () if before is None else before.client_assignors
    now = after.client_assignors
    if was == now:
        return False
    same = [each._replace(reason=0) for each in was]
    return same != [each._replace(reason=0) for each in now] or any(
        each.reason for each in now
    )
