"""Rows of the cluster: configurations, ACLs and users."""

from __future__ import annotations

from typing import Any, Final

from coterie.auth.acl import Operation
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType
from tests.broker.server.apis.acl_rows import (
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    Row,
    by_name,
    cluster,
    group,
    refusal,
    top,
    topic,
)
from tests.broker.server.apis.acl_rows_topics import (
    BOTH,
    described,
    each_topic,
    metadata,
)

ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS = Operation.ALTER_CONFIGS


def configs(*resources: tuple[ConfigResourceType, str]) -> m.DescribeConfigsRequest:
    return m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in resources
        ]
    )


def configured(response: Any) -> object:
    return by_name(response.results, "resource_name")


def alter(
    kind: ConfigResourceType, name: str, key: str, value: str
) -> m.IncrementalAlterConfigsRequest:
    change = m.IncrementalAlterableConfig(name=key, value=value)
    resource = m.IncrementalAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def altered(response: Any) -> object:
    return by_name(response.responses, "resource_name")


def replace(name: str, key: str, value: str) -> m.AlterConfigsRequest:
    resource = m.AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=name,
        configs=[m.AlterableConfig(name=key, value=value)],
    )
    return m.AlterConfigsRequest(resources=[resource], validate_only=True)


def cluster_seen(response: Any) -> bool:
    """Return whether the response has the authorized operations of the cluster."""
    return bool(response.cluster_authorized_operations >> DESCRIBE & 1)


ANYTHING: Final = m.AclCreation(
    resource_type=3,
    resource_name="z",
    principal="User:z",
    host="*",
    operation=3,
    permission_type=3,
)
NOTHING: Final[dict[str, Any]] = {
    "resource_name_filter": "nowhere",
    "principal_filter": None,
    "host_filter": None,
    "resource_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}

ROWS: Final = [
    Row(
        "DescribeConfigs of topics",
        lambda _: configs(
            (ConfigResourceType.TOPIC, "t"), (ConfigResourceType.TOPIC, "u")
        ),
        configured,
        BOTH,
        each_topic(DESCRIBE_CONFIGS),
        4,
    ),
    Row(
        "DescribeConfigs of a group",
        lambda _: configs((ConfigResourceType.GROUP, "g")),
        configured,
        {"g": 0},
        {group(DESCRIBE_CONFIGS): {"g": NO_GROUP}},
        4,
        facts=("E21-09a", "E27-12"),
    ),
    Row(
        "DescribeConfigs of a broker",
        lambda _: configs((ConfigResourceType.BROKER, "1")),
        configured,
        {"1": 0},
        {cluster(DESCRIBE_CONFIGS): {"1": NO_CLUSTER}},
        4,
    ),
    Row(
        "AlterConfigs of a topic",
        lambda _: alter(ConfigResourceType.TOPIC, "t", "retention.ms", "1000"),
        altered,
        {"t": 0},
        {topic(ALTER_CONFIGS): {"t": NO_TOPIC}},
        1,
    ),
    Row(
        "AlterConfigs of a group",
        lambda _: alter(
            ConfigResourceType.GROUP, "g", "consumer.session.timeout.ms", "50000"
        ),
        altered,
        {"g": 0},
        {group(ALTER_CONFIGS): {"g": NO_GROUP}},
        1,
        facts=("E21-09", "E27-12"),
    ),
    Row(
        "AlterConfigs of a broker",
        lambda _: alter(ConfigResourceType.BROKER, "1", "message.max.bytes", "1000000"),
        altered,
        {"1": 0},
        {cluster(ALTER_CONFIGS): {"1": NO_CLUSTER}},
        1,
    ),
    Row(
        "DescribeCluster",
        lambda _: m.DescribeClusterRequest(include_cluster_authorized_operations=True),
        lambda response: (top(response), cluster_seen(response)),
        (0, True),
        {cluster(DESCRIBE): (0, False)},
        1,
    ),
    Row(
        "Metadata with what may be done to the cluster",
        lambda _: metadata("t", include_cluster_authorized_operations=True),
        lambda response: (described(response), cluster_seen(response)),
        ({"t": 0}, True),
        {
            cluster(DESCRIBE): ({"t": 0}, False),
            topic(DESCRIBE): ({"t": NO_TOPIC}, True),
        },
        10,
    ),
    Row(
        "DescribeAcls",
        lambda _: m.DescribeAclsRequest(**NOTHING),
        top,
        0,
        {cluster(DESCRIBE): NO_CLUSTER},
        3,
    ),
    Row(
        "CreateAcls",
        lambda _: m.CreateAclsRequest(creations=[ANYTHING] * 2),
        lambda response: [refusal(found.error_code) for found in response.results],
        [0, 0],
        {cluster(ALTER): [NO_CLUSTER] * 2},
        3,
    ),
    Row(
        "DeleteAcls",
        lambda _: m.DeleteAclsRequest(filters=[m.DeleteAclsFilter(**NOTHING)] * 2),
        lambda response: [
            refusal(found.error_code) for found in response.filter_results
        ],
        [0, 0],
        {cluster(ALTER): [NO_CLUSTER] * 2},
        3,
    ),
    Row(
        "AlterConfigs in one piece",
        lambda _: replace("t", "retention.ms", "1000"),
        altered,
        {"t": 0},
        {topic(ALTER_CONFIGS): {"t": NO_TOPIC}},
        2,
    ),
    Row(
        "ListConfigResources",
        lambda _: m.ListConfigResourcesRequest(
            resource_types=[ConfigResourceType.GROUP]
        ),
        top,
        0,
        {cluster(DESCRIBE_CONFIGS): NO_CLUSTER},
        1,
    ),
    Row(
        "DescribeClientQuotas",
        lambda _: m.DescribeClientQuotasRequest(),
        top,
        0,
        {cluster(DESCRIBE_CONFIGS): NO_CLUSTER},
        1,
    ),
    Row(
        "AlterClientQuotas",
        lambda _: m.AlterClientQuotasRequest(
            entries=[
                m.QuotaAlteration(
                    entity=[
                        m.AlteredQuotaEntity(entity_type="user", entity_name="none")
                    ],
                    ops=[m.QuotaOperation(key="producer_byte_rate", remove=True)],
                )
            ]
        ),
        lambda response: [entry.error_code for entry in response.entries],
        [0],
        {cluster(ALTER_CONFIGS): [NO_CLUSTER]},
        1,
    ),
    Row(
        "DescribeUserScramCredentials",
        lambda _: m.DescribeUserScramCredentialsRequest(
            users=[m.UserName(name="nobody")]
        ),
        top,
        0,
        {cluster(DESCRIBE): NO_CLUSTER},
        0,
    ),
    Row(
        "AlterUserScramCredentials",
        lambda _: m.AlterUserScramCredentialsRequest(
            deletions=[m.ScramCredentialDeletion(name="nobody", mechanism=1)]
        ),
        lambda response: by_name(response.results, "user"),
        {"nobody": 0},
        {cluster(ALTER): {"nobody": NO_CLUSTER}},
        0,
    ),
]
