"""Features of a cluster, on a server and on a scripted call."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.admin import features
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.features import (
    FeatureChange,
    FeatureUpdate,
    LevelRange,
    update_features,
)
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.errors import ApiError, UnsupportedByBroker
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import VERSION_MAX, Versions
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

DOWN = FeatureUpdate(0, FeatureChange.UNSAFE_DOWNGRADE)


async def test_features_are_described_and_an_update_needs_another_broker() -> None:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        async with AdminClient(f"{host}:{port}", OPTIONS) as admin:
            found = await admin.describe_features()
            with pytest.raises(UnsupportedByBroker, match="UpdateFeatures"):
                await admin.update_features({"group.version": FeatureUpdate(1)})
    assert found.finalized["group.version"] == 1
    supported = found.supported["group.version"]
    assert supported.low <= 1 <= supported.high
    assert supported == LevelRange(supported.low, supported.high)


def answering(
    monkeypatch: pytest.MonkeyPatch, response: m.UpdateFeaturesResponse
) -> list[tuple[m.UpdateFeaturesRequest, Versions]]:
    """Answer UpdateFeatures, which scripted brokers cannot read."""
    sent = []

    async def call(
        cluster: Cluster, request: Any, kind: Any, codes: Any, *, wanted: Versions
    ) -> m.UpdateFeaturesResponse:
        sent.append((request, wanted))
        return response

    monkeypatch.setattr(features, "call_controller", call)
    return sent


async def test_each_feature_has_its_own_error_or_that_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster("127.0.0.1:1", ClientOptions())
    own = m.UpdatableFeatureResult(
        feature="a", error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="no"
    )
    answering(monkeypatch, m.UpdateFeaturesResponse(results=[own]))
    updates = {"a": FeatureUpdate(9), "b": DOWN}
    results = await update_features(cluster, updates, validate_only=False)
    assert list(results.values) == ["b"]
    assert "feature a: INVALID_UPDATE_VERSION: no" in str(results.errors["a"])

    code = ErrorCode.FEATURE_UPDATE_FAILED
    answering(monkeypatch, m.UpdateFeaturesResponse(error_code=code))
    results = await update_features(cluster, updates, validate_only=False)
    assert list(results.errors) == ["a", "b"]
    with pytest.raises(ApiError, match="feature a"):
        results.raise_any()


async def test_validation_and_unsafe_downgrades_need_version_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster("127.0.0.1:1", ClientOptions())
    sent = answering(monkeypatch, m.UpdateFeaturesResponse())
    up = {"a": FeatureUpdate(1)}
    await update_features(cluster, up, validate_only=False)
    await update_features(cluster, up, validate_only=True)
    await update_features(cluster, {"a": DOWN}, validate_only=False)
    assert [wanted.low for _, wanted in sent] == [0, 1, 1]
    assert {wanted.high for _, wanted in sent} == {VERSION_MAX}
    assert sent[2][0].feature_updates[0].allow_downgrade
