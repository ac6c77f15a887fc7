"""The settings of a server, under Kafka's own names and defaults.

A setting's Kafka name is the attribute's with dots for underscores:
`group_initial_rebalance_delay_ms` is `group.initial.rebalance.delay.ms`. This module
only declares the settings; broker/server/config.py reads them from files and options
and checks them. Settings marked "Coterie only" have no counterpart in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

INT32_MAX = 2**31 - 1
SECRETS: Final = frozenset({"ssl.key.password"})
"""Settings that are never shown: they are refused on the command line, which other
users of the machine can read, and are null in DescribeConfigs responses."""

SEPARATORS: Final[Mapping[str, str]] = {"super.users": ";"}
"""The separator of list settings whose elements may contain a comma, which separates
the elements of all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server. Times in ms, sizes in bytes."""

    # Classic groups.
    group_initial_rebalance_delay_ms: int = 3_000
    """Time for which the first rebalance of an empty group waits for more members."""
    group_min_session_timeout_ms: int = 6_000
    """Least session timeout that a member of a classic group may request."""
    group_max_session_timeout_ms: int = 1_800_000
    """Largest session timeout that a member of a classic group may request."""
    group_max_size: int = INT32_MAX
    """Largest number of members of a classic group."""
    group_max_pending_members: int = 10_000
    """Coterie only: largest number of new members of a classic group that have a
    member id and have not joined with it yet (KIP-394)."""

    # Consumer groups (KIP-848).
    group_consumer_session_timeout_ms: int = 45_000
    """Time without a heartbeat after which a member is fenced."""
    group_consumer_min_session_timeout_ms: int = 45_000
    """Least session timeout that a group configuration may set."""
    group_consumer_max_session_timeout_ms: int = 60_000
    """Largest session timeout that a group configuration may set."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    """Heartbeat interval that the coordinator sends to members."""
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    """Least heartbeat interval that a group configuration may set."""
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    """Largest heartbeat interval that a group configuration may set."""
    group_consumer_max_size: int = INT32_MAX
    """Largest number of members of a consumer group."""
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """Server-side assignors; the first is the default."""
    group_consumer_migration_policy: str = "bidirectional"
    """Conversions between classic and consumer groups: bidirectional, upgrade,
    downgrade or disabled."""
    group_consumer_migration_drop_user_data: bool = True
    """Coterie only: whether an upgrade may drop the user data in the assignments of
    range, roundrobin, sticky and cooperative-sticky. Kafka refuses such groups, as
    false does."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """Interval at which subscribed regular expressions are resolved again."""
    group_consumer_assignment_interval_ms: int = 1_000
    """Least time between two target assignments of a group."""
    group_consumer_min_assignment_interval_ms: int = 0
    """Least assignment interval that a group configuration may set."""
    group_consumer_max_assignment_interval_ms: int = 15_000
    """Largest assignment interval that a group configuration may set."""
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    """Group protocols that are served, except that of share groups, which always is."""
    group_consumer_client_assignors_enable: bool = False
    """Coterie only: whether members may compute assignments (KIP-848, Client Side
    Mode)."""

    # Share groups (KIP-932).
    group_share_session_timeout_ms: int = 45_000
    """Time without a heartbeat after which a member is removed."""
    group_share_min_session_timeout_ms: int = 45_000
    """Least session timeout that a group configuration may set."""
    group_share_max_session_timeout_ms: int = 60_000
    """Largest session timeout that a group configuration may set."""
    group_share_heartbeat_interval_ms: int = 5_000
    """Heartbeat interval that the coordinator sends to members."""
    group_share_min_heartbeat_interval_ms: int = 5_000
    """Least heartbeat interval that a group configuration may set."""
    group_share_max_heartbeat_interval_ms: int = 15_000
    """Largest heartbeat interval that a group configuration may set."""
    group_share_assignment_interval_ms: int = 1_000
    """Least time between two target assignments of a group."""
    group_share_min_assignment_interval_ms: int = 0
    """Least assignment interval that a group configuration may set."""
    group_share_max_assignment_interval_ms: int = 15_000
    """Largest assignment interval that a group configuration may set."""
    group_share_max_size: int = 200
    """Largest number of members of a share group."""
    group_share_initialize_retry_interval_ms: int = 30_000
    """Time after which the initialization of share partitions is repeated."""
    group_share_record_lock_duration_ms: int = 30_000
    """Time for which a record that a member acquired is locked."""
    group_share_min_record_lock_duration_ms: int = 15_000
    """Least lock duration that a group configuration may set."""
    group_share_max_record_lock_duration_ms: int = 60_000
    """Largest lock duration that a group configuration may set."""
    group_share_delivery_count_limit: int = 5
    """Largest number of deliveries of a record."""
    group_share_min_delivery_count_limit: int = 2
    """Least delivery limit that a group configuration may set."""
    group_share_max_delivery_count_limit: int = 10
    """Largest delivery limit that a group configuration may set."""
    group_share_partition_max_record_locks: int = 2_000
    """Largest number of locked records of a share partition."""
    group_share_min_partition_max_record_locks: int = 100
    """Least number of locked records that a group configuration may set."""
    group_share_max_partition_max_record_locks: int = 4_000
    """Largest number of locked records that a group configuration may set."""
    group_share_max_share_sessions: int = 2_000
    """Largest number of share sessions of a node."""

    # Committed offsets.
    offset_metadata_max_bytes: int = 4_096
    """Largest metadata of a committed offset."""
    offsets_retention_minutes: int = 10_080
    """Minutes after which the offsets of an empty group expire."""
    offsets_retention_check_interval_ms: int = 600_000
    """Interval at which expired offsets are removed."""
    offsets_topic_num_partitions: int = 50
    """Number of partitions of `__consumer_offsets`."""
    offsets_topic_partition_max_groups: int = 50_000
    """Coterie only: largest number of groups in one partition of
    `__consumer_offsets`."""
    offsets_commit_timeout_ms: int = 5_000
    """Time after which a response fails whose records are not durable yet."""

    # Nodes.
    broker_rack: tuple[str, ...] = ()
    """Rack of each node, in order of the nodes, or empty for none. Kafka's setting
    names the rack of its one broker."""

    # Topics and their data.
    auto_create_topics_enable: bool = True
    """Whether a Metadata request may create a topic that does not exist."""
    num_partitions: int = 1
    """Partitions of a topic that is created without a number."""
    max_partitions: int = 200_000
    """Coterie only: largest number of partitions of all topics."""
    catalog_max_entries: int = 1_000_000
    """Coterie only: largest number of ACL bindings, of SCRAM credentials, of groups
    with configurations, and of transactional ids."""
    log_retention_ms: int = 604_800_000
    """Time after which records are deleted; -1 for none."""
    log_retention_bytes: int = -1
    """Size of a partition above which its oldest batches are deleted; -1 for none."""
    log_retention_check_interval_ms: int = 300_000
    """Interval at which records are deleted by retention."""
    log_cleaner_enable: bool = True
    """Whether topics with `cleanup.policy=compact` are compacted."""
    log_flush_sync: bool = True
    """Coterie only: false skips the sync at a flush, so that a power failure may lose
    acknowledged writes; for measurements only."""
    log_journal_bytes: int = 33_554_432
    """Coterie only: size of each of the two journals; a full one is copied to
    segments."""
    message_max_bytes: int = 1_048_588
    """Largest record batch."""
    min_insync_replicas: int = 1
    """Shown as the default of topics; without effect, as there are no replicas."""
    batch_records_max: int = 1_000_000
    """Coterie only: most records in a batch."""
    batch_decompressed_bytes_max: int = 104_857_600
    """Coterie only: largest size of a batch's records when decompressed."""
    fetch_max_bytes: int = 57_671_680
    """Largest Fetch response."""
    delete_topic_enable: bool = True
    """Whether topics may be deleted."""
    max_incremental_fetch_session_cache_slots: int = 1_000
    """Largest number of fetch sessions (KIP-227)."""
    max_incremental_fetch_session_cache_partitions: int = 500_000
    """Coterie only: largest number of partitions of all fetch sessions."""

    # Transactions.
    transaction_max_timeout_ms: int = 900_000
    """Longest transaction timeout that a producer may request."""
    transactional_id_expiration_ms: int = 604_800_000
    """Time after its last transaction at which a transactional id expires."""
    producer_id_expiration_ms: int = 86_400_000
    """Time after its last append at which a partition removes a producer's state."""

    # Authorization.
    authorizer: str = "by-listener"
    """Coterie only, in place of `authorizer.class.name`: "acl" for the rules of Kafka's
    StandardAuthorizer, "allow-all" for none. "by-listener" is "allow-all" when only
    this machine can connect, else "acl"."""
    super_users: tuple[str, ...] = ()
    """Principals that are allowed every operation, as in "User:admin"."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether a resource without ACL bindings is open to every principal."""
    acl_delete_implies_describe: bool = True
    """Coterie only: whether an allowed DELETE implies DESCRIBE, as in Kafka's
    authorizer; the text of KIP-229 says that it does not."""

    # Connections.
    socket_request_max_bytes: int = 104_857_600
    """Largest request."""
    socket_request_without_records_max_bytes: int = 16_777_216
    """Coterie only: largest request of an API other than Produce."""
    socket_request_max_elements: int = 500_000
    """Coterie only: largest number of elements in all arrays of a request together."""
    queued_max_request_bytes: int = 134_217_728
    """Bytes that all connections together may hold: received and not handled, and
    responses not consumed; -1 for no limit. Kafka's setting counts only requests, and
    its default is -1."""
    connection_request_timeout_ms: int = 30_000
    """Coterie only: time without progress (1,024 bytes a second) after which an
    incomplete request closes its connection."""
    max_connections: int = INT32_MAX
    """Largest number of open connections."""
    max_connections_per_ip: int = INT32_MAX
    """Largest number of open connections of one address."""
    max_connections_per_ip_overrides: tuple[str, ...] = ()
    """Other limits for some addresses, as in "127.0.0.1:200"."""
    max_in_flight_requests_per_connection: int = 1_000
    """Coterie only: number of unanswered requests at which reading pauses."""
    connections_max_idle_ms: int = 600_000
    """Time without a request after which a connection is closed; -1 for none."""
    connection_write_buffer_max_bytes: int = 1_048_576
    """Coterie only: unsent response bytes after which no further request of a
    connection is handled."""

    # Quotas.
    quota_window_num: int = 11
    """Samples of the window over which the rates of clients are measured."""
    quota_window_size_seconds: int = 1
    """Length of one sample."""
    controller_quota_window_num: int = 11
    """Samples of a burst that `controller_mutation_rate` allows."""
    controller_quota_window_size_seconds: int = 1
    """Length of one sample of `controller_mutation_rate`."""
    max_connection_creation_rate: int = INT32_MAX
    """Connections accepted per second."""

    # Authentication by TLS and SASL.
    ssl_keystore_location: str = ""
    """Path of the PEM file with the server's private key and certificate chain."""
    ssl_keystore_type: str = "PEM"
    """Format of the keystore; PEM is the only one."""
    ssl_key_password: str = field(default="", repr=False)
    """Password of an encrypted private key."""
    ssl_truststore_location: str = ""
    """Path of the PEM file with the certificates that client certificates are verified
    against."""
    ssl_truststore_type: str = "PEM"
    """Format of the truststore; PEM is the only one."""
    ssl_client_auth: str = "none"
    """Client certificates: none, requested or required."""
    ssl_principal_mapping_rules: str = "DEFAULT"
    """Rules from a certificate's distinguished name to a principal (KIP-371)."""
    sasl_enabled_mechanisms: tuple[str, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    """SASL mechanisms that clients may use."""
    sasl_server_max_receive_size: int = 524_288
    """Largest request before authentication is complete."""
    sasl_users_file: str = ""
    """Coterie only: path of a TOML file of users and passwords that are created when
    the server starts."""
    connections_max_reauth_ms: int = 0
    """Lifetime of a SASL session (KIP-368); 0 for no limit."""
    connection_failed_authentication_delay_ms: int = 100
    """Delay before a connection with failed authentication is closed."""
    sasl_failure_backoff_ms: int = 500
    """Coterie only: first delay of the next check of a password, after some failures of
    a user at an address, or of an address; each further failure doubles it. 0 for
    none."""
    sasl_failure_backoff_max_ms: int = 10_000
    """Coterie only: largest delay of the next check of a password."""
    connection_authentication_timeout_ms: int = 30_000
    """Coterie only: time in which a client has to authenticate, the TLS handshake
    included."""
