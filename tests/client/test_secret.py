"""Tests for secrets, which are printed as a mask."""

from __future__ import annotations

import copy
import pickle

import pytest

from coterie.client.oauth import FixedToken
from coterie.client.options import ClientOptions
from coterie.client.sasl import OAuthBearer, Plain, Scram
from coterie.client.secret import MASK, Secret
from coterie.client.tls import TlsOptions

HIDDEN = Secret("hunter2")


@pytest.mark.parametrize(
    "holder",
    [
        HIDDEN,
        [HIDDEN],
        Plain("alice", HIDDEN),
        Scram("SCRAM-SHA-256", "alice", HIDDEN),
        OAuthBearer(FixedToken(HIDDEN), {"key": "hunter2"}),
        FixedToken(HIDDEN),
        TlsOptions(key=HIDDEN, key_password=HIDDEN, trust_password=HIDDEN),
        ClientOptions(sasl=Plain("alice", HIDDEN)),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_objects_with_secrets_print_a_mask(holder: object) -> None:
    for text in (repr(holder), str(holder), f"{holder}"):
        assert "hunter2" not in text


def test_a_secret_is_revealed_on_request_only() -> None:
    assert HIDDEN.reveal() == "hunter2"
    assert repr(HIDDEN) == MASK


def test_a_secret_is_compared_by_its_value() -> None:
    assert Secret("hunter2") == HIDDEN
    assert hash(Secret("hunter2")) == hash(HIDDEN)
    assert Secret("hunter3") != HIDDEN
    assert HIDDEN != "hunter2"


def test_a_secret_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(HIDDEN)
    assert copy.copy([HIDDEN]) == [HIDDEN]
