"""Configurations of topics and brokers: which values are valid."""

from __future__ import annotations

import pytest

from coterie.broker.catalog.configs import (
    DYNAMIC,
    check_broker_config,
    check_topic_config,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode


@pytest.mark.parametrize("name", ["retention.ms", "min.insync.replicas"])
def test_a_number_with_an_underscore_is_refused(name: str) -> None:
    check_topic_config(name, "10")
    with pytest.raises(ApiError, match="Not a number") as refused:
        check_topic_config(name, "1_0")
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_number_of_a_dynamic_broker_config_is_parsed_as_in_java() -> None:
    name, (_, high) = next(iter(DYNAMIC.items()))
    check_broker_config(name, str(high))
    for value in ("1_0", "", "x", str(10**400)):
        with pytest.raises(ApiError) as refused:
            check_broker_config(name, value)
        assert refused.value.code == ErrorCode.INVALID_CONFIG
