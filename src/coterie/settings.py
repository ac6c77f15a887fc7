"""Every setting that decides behaviour, under Kafka's own names and defaults.

A setting's Kafka name is its attribute's with dots for underscores:
`group_initial_rebalance_delay_ms` is `group.initial.rebalance.delay.ms`. This file
only holds values; server/config.py reads them from files and flags and checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

INT32_MAX = 2**31 - 1
SECRETS: Final = frozenset({"ssl.key.password"})
"""Settings that are told to nobody: not on a command line, which others can read, and
not in an answer."""

SEPARATORS: Final[Mapping[str, str]] = {"super.users": ";"}
"""What stands between the words of a list in text, where it is no comma: names of
principals have commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server. Times in ms, sizes in bytes."""

    # Groups of the classic protocol.
    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = INT32_MAX

    # Consumer groups (KIP-848).
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = INT32_MAX
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    group_consumer_client_assignors_enable: bool = False
    """Ours: whether clients that ask for it may compute assignments (E13)."""

    # Committed offsets.
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_commit_timeout_ms: int = 5_000

    # Nodes.
    broker_rack: tuple[str, ...] = ()
    """The rack of each node, in their order; Kafka's setting names the one of its one
    broker. Without it nobody knows of racks."""

    # Topics and their data.
    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    log_retention_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_enable: bool = True
    log_flush_sync: bool = True
    """Ours: false gives up what a loss of power may take; for measuring only."""
    message_max_bytes: int = 1_048_588
    fetch_max_bytes: int = 57_671_680
    delete_topic_enable: bool = True
    max_incremental_fetch_session_cache_slots: int = 1_000

    # Transactions.
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000

    # Who may do what.
    authorizer: str = "by-listener"
    """Ours, in place of `authorizer.class.name`: "acl" for Kafka's StandardAuthorizer,
    "allow-all" for none. "by-listener" allows all only where nobody but this machine
    can connect."""
    super_users: tuple[str, ...] = ()
    """Principals that may do everything, as in "User:admin"."""
    allow_everyone_if_no_acl_found: bool = False
    acl_delete_implies_describe: bool = True
    """Ours: whether to be allowed to delete something is to be allowed to describe it,
    as Kafka's authorizer has it; KIP-229 says that it is not (D-31)."""

    # Connections.
    socket_request_max_bytes: int = 104_857_600
    max_connections: int = INT32_MAX
    max_in_flight_requests_per_connection: int = 1_000
    connections_max_idle_ms: int = 600_000
    connection_write_buffer_max_bytes: int = 16_777_216

    # Who calls: TLS and SASL.
    ssl_keystore_location: str = ""
    ssl_keystore_type: str = "PEM"
    ssl_key_password: str = field(default="", repr=False)
    ssl_truststore_location: str = ""
    ssl_truststore_type: str = "PEM"
    ssl_client_auth: str = "none"
    ssl_principal_mapping_rules: str = "DEFAULT"
    sasl_enabled_mechanisms: tuple[str, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    sasl_server_max_receive_size: int = 524_288
    sasl_users_file: str = ""
    """Ours: a TOML file of users and passwords that are made when the server starts."""
    connections_max_reauth_ms: int = 0
    connection_failed_authentication_delay_ms: int = 100
    connection_authentication_timeout_ms: int = 30_000
    """Ours: how long a client may take to be who it is, its TLS handshake included."""
