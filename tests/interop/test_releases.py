"""Apache Kafka advertises what the table of releases lists for its version."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from coterie.wire.releases import load_release
from tests.broker.server.harness import WireClient

from .conftest import Broker

pytestmark = pytest.mark.slow

RELEASE = "4.4"


def test_api_versions_are_those_of_the_table(broker: Broker) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    with WireClient(host, int(port)) as client:
        listed = {
            each.api_key: (each.min_version, each.max_version)
            for each in client.call(m.ApiVersionsRequest(), 0).api_keys
        }
    release = load_release(RELEASE)
    if broker.kind == "kafka":
        assert listed == release.shipped
    else:
        assert listed.keys() == release.versions.keys()
