"""The handler of every API.

A handler calls `Call.respond` once, now or later; no task is created for a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from coterie.broker.server.apis import (
    acls,
    alter_configs,
    cluster,
    committed_offsets,
    describe_configs,
    describe_transactions,
    fetch,
    groups,
    metadata,
    partition_offsets,
    produce,
    quotas,
    replicas,
    sasl,
    share_acknowledge,
    share_fetch,
    share_groups,
    share_offsets,
    topics,
    transactions,
    users,
)
from coterie.broker.server.call import Handler
from coterie.wire.api import ApiKey

_HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.PRODUCE: produce.produce,
        ApiKey.FETCH: fetch.fetch,
        ApiKey.LIST_OFFSETS: partition_offsets.list_offsets,
        ApiKey.METADATA: metadata.metadata,
        ApiKey.OFFSET_COMMIT: committed_offsets.offset_commit,
        ApiKey.OFFSET_FETCH: committed_offsets.offset_fetch,
        ApiKey.FIND_COORDINATOR: cluster.find_coordinator,
        ApiKey.JOIN_GROUP: groups.serve_member_request,
        ApiKey.HEARTBEAT: groups.serve_member_request,
        ApiKey.LEAVE_GROUP: groups.serve_member_request,
        ApiKey.SYNC_GROUP: groups.sync_group,
        ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.SASL_HANDSHAKE: sasl.sasl_handshake,
        ApiKey.API_VERSIONS: cluster.api_versions,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.DELETE_RECORDS: partition_offsets.delete_records,
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: partition_offsets.offset_for_leader_epoch,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
        ApiKey.END_TXN: transactions.end_txn,
        ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
        ApiKey.DESCRIBE_ACLS: acls.describe_acls,
        ApiKey.CREATE_ACLS: acls.create_acls,
        ApiKey.DELETE_ACLS: acls.delete_acls,
        ApiKey.DESCRIBE_CONFIGS: describe_configs.describe_configs,
        ApiKey.ALTER_CONFIGS: alter_configs.alter_configs,
        ApiKey.ALTER_REPLICA_LOG_DIRS: replicas.alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: replicas.describe_log_dirs,
        ApiKey.SASL_AUTHENTICATE: sasl.sasl_authenticate,
        ApiKey.CREATE_PARTITIONS: topics.create_partitions,
        ApiKey.DELETE_GROUPS: groups.delete_groups,
        ApiKey.ELECT_LEADERS: replicas.elect_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs.incremental_alter_configs,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: replicas.alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: replicas.list_partition_reassignments,
        ApiKey.OFFSET_DELETE: committed_offsets.offset_delete,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: users.describe_users,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: users.alter_users,
        ApiKey.DESCRIBE_QUORUM: cluster.describe_quorum,
        ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: describe_transactions.describe_producers,
        ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.describe_transactions,
        ApiKey.LIST_TRANSACTIONS: describe_transactions.list_transactions,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: groups.describe_consumer_groups,
        ApiKey.SHARE_GROUP_HEARTBEAT: share_groups.share_group_heartbeat,
        ApiKey.SHARE_FETCH: share_fetch.share_fetch,
        ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge.share_acknowledge,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_offsets.describe_share_group_offsets,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_offsets.alter_share_group_offsets,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_offsets.delete_share_group_offsets,
        ApiKey.SHARE_GROUP_DESCRIBE: share_groups.describe_share_groups,
        ApiKey.LIST_CONFIG_RESOURCES: describe_configs.list_config_resources,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
        ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT: groups.serve_client_assignment,
        ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT: groups.serve_client_assignment,
    }
)

HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType(
    {int(key): handler for key, handler in _HANDLERS.items()}
)
"""The handlers by plain integers, which compare faster than enum members."""
