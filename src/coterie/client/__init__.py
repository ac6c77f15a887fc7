"""Asyncio and blocking clients of Kafka clusters, of Coterie's brokers or any other.

Everything that callers need is a name of this package: the clients, the values that
they take and return, and their errors. Each name is imported on first use, so that a
command of the admin client does not import the group member.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coterie.auth.acl import (
        AclBinding,
        AclBindingFilter,
        Operation,
        PatternType,
        PermissionType,
        Principal,
        ResourceType,
    )
    from coterie.client.admin.admin_client import AdminClient
    from coterie.client.admin.api_versions import BrokerVersions
    from coterie.client.admin.configs import ConfigEntry, ConfigResource, ConfigSynonym
    from coterie.client.admin.features import (
        ClusterFeatures,
        FeatureChange,
        FeatureUpdate,
        LevelRange,
    )
    from coterie.client.admin.fetch import FirstRecord
    from coterie.client.admin.group_changes import MemberToRemove
    from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
    from coterie.client.admin.groups import (
        ClusterDescription,
        GroupDescription,
        GroupListing,
        GroupListings,
        GroupState,
        GroupType,
        MemberDescription,
        Node,
        Subtopology,
        Task,
        Tasks,
        Topology,
    )
    from coterie.client.admin.log_dirs import LogDir
    from coterie.client.admin.log_offsets import (
        EARLIEST,
        LATEST,
        AtTime,
        LogOffsetInfo,
        OffsetSpec,
        SpecialOffset,
    )
    from coterie.client.admin.quotas import QuotaEntity, QuotaEntityName, QuotaName
    from coterie.client.admin.results import Partial, Progress, Results
    from coterie.client.admin.share_groups import ShareGroupOffsets, ShareOffset
    from coterie.client.admin.topics import (
        CreatedTopic,
        NewTopic,
        PartitionDescription,
        TopicDescription,
    )
    from coterie.client.admin.transactions import (
        HangingTransaction,
        OpenTransaction,
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionListings,
        TransactionState,
    )
    from coterie.client.admin.users import ScramDeletion, ScramInfo, ScramUpsertion
    from coterie.client.classic_consumer import ClassicConsumer, ClassicConsumerOptions
    from coterie.client.classic_member import ClassicMember
    from coterie.client.classic_options import AssignMembers, ClassicOptions, Metadata
    from coterie.client.classic_requests import JoinedMember
    from coterie.client.client_assignors import (
        AssignmentOf,
        AssignorFunction,
        AssignorMember,
        ClientAssignor,
    )
    from coterie.client.cluster import Cluster
    from coterie.client.group_member import GroupMember, MemberOptions
    from coterie.client.member import Member, OnAssigned, OnLost, OnRevoked, Owned
    from coterie.client.member_offsets import Offset, OffsetAndMetadata
    from coterie.client.member_states import MemberState
    from coterie.client.oauth import (
        ClientCredentials,
        FixedToken,
        Grant,
        TokenFile,
        UnsecuredToken,
    )
    from coterie.client.options import ClientOptions
    from coterie.client.producer import Appended, NewRecord, Producer, ProducerOptions
    from coterie.client.record_reader import RecordReader
    from coterie.client.sasl import (
        Conversation,
        Credentials,
        OAuthBearer,
        Plain,
        Scram,
        TokenProvider,
    )
    from coterie.client.secret import Secret
    from coterie.client.sync import SyncAdmin
    from coterie.client.tls import TlsOptions, make_context
    from coterie.errors import (
        ApiError,
        AuthenticationFailed,
        ClientError,
        CommitRefused,
        ConnectionLost,
        CoterieError,
        MalformedFrame,
        OperationRefused,
        RequestTimedOut,
        SettingError,
        UnsupportedByBroker,
        UnsupportedGroupType,
    )
    from coterie.types import (
        GroupId,
        LogOffset,
        MemberId,
        ProducerId,
        ScramMechanism,
        TopicId,
        TopicName,
        TopicPartition,
    )
    from coterie.wire.compression import Codec
    from coterie.wire.configs import ConfigResourceType, ConfigSource, ConfigType
    from coterie.wire.error_codes import ErrorCode
    from coterie.wire.record_batch import LogRecord
    from coterie.wire.schema import Versions

_MODULES: Final = {
    "coterie.auth.acl": (
        "AclBinding",
        "AclBindingFilter",
        "Operation",
        "PatternType",
        "PermissionType",
        "Principal",
        "ResourceType",
    ),
    "coterie.client.admin.admin_client": ("AdminClient",),
    "coterie.client.admin.api_versions": ("BrokerVersions",),
    "coterie.client.admin.configs": (
        "ConfigEntry",
        "ConfigResource",
        "ConfigSynonym",
    ),
    "coterie.client.admin.features": (
        "ClusterFeatures",
        "FeatureChange",
        "FeatureUpdate",
        "LevelRange",
    ),
    "coterie.client.admin.group_changes": ("MemberToRemove",),
    "coterie.client.admin.group_offsets": (
        "CommittedOffset",
        "GroupOffsets",
    ),
    "coterie.client.admin.groups": (
        "ClusterDescription",
        "GroupDescription",
        "GroupListing",
        "GroupListings",
        "GroupState",
        "GroupType",
        "MemberDescription",
        "Node",
        "Subtopology",
        "Task",
        "Tasks",
        "Topology",
    ),
    "coterie.client.admin.fetch": ("FirstRecord",),
    "coterie.client.admin.log_dirs": ("LogDir",),
    "coterie.client.admin.log_offsets": (
        "AtTime",
        "EARLIEST",
        "LATEST",
        "LogOffsetInfo",
        "OffsetSpec",
        "SpecialOffset",
    ),
    "coterie.client.admin.quotas": (
        "QuotaEntity",
        "QuotaEntityName",
        "QuotaName",
    ),
    "coterie.client.admin.results": (
        "Partial",
        "Progress",
        "Results",
    ),
    "coterie.client.admin.share_groups": (
        "ShareGroupOffsets",
        "ShareOffset",
    ),
    "coterie.client.admin.topics": (
        "CreatedTopic",
        "NewTopic",
        "PartitionDescription",
        "TopicDescription",
    ),
    "coterie.client.admin.transactions": (
        "HangingTransaction",
        "OpenTransaction",
        "ProducerState",
        "TransactionDescription",
        "TransactionListing",
        "TransactionListings",
        "TransactionState",
    ),
    "coterie.client.admin.users": (
        "ScramDeletion",
        "ScramInfo",
        "ScramUpsertion",
    ),
    "coterie.client.classic_consumer": (
        "ClassicConsumer",
        "ClassicConsumerOptions",
    ),
    "coterie.client.classic_member": ("ClassicMember",),
    "coterie.client.classic_options": (
        "AssignMembers",
        "ClassicOptions",
        "Metadata",
    ),
    "coterie.client.classic_requests": ("JoinedMember",),
    "coterie.client.client_assignors": (
        "AssignmentOf",
        "AssignorFunction",
        "AssignorMember",
        "ClientAssignor",
    ),
    "coterie.client.cluster": ("Cluster",),
    "coterie.client.group_member": ("GroupMember", "MemberOptions"),
    "coterie.client.member": ("Member", "OnAssigned", "OnLost", "OnRevoked", "Owned"),
    "coterie.client.member_offsets": (
        "Offset",
        "OffsetAndMetadata",
    ),
    "coterie.client.member_states": ("MemberState",),
    "coterie.client.oauth": (
        "ClientCredentials",
        "FixedToken",
        "Grant",
        "TokenFile",
        "UnsecuredToken",
    ),
    "coterie.client.options": ("ClientOptions",),
    "coterie.client.producer": (
        "Appended",
        "NewRecord",
        "Producer",
        "ProducerOptions",
    ),
    "coterie.client.record_reader": ("RecordReader",),
    "coterie.client.sasl": (
        "Conversation",
        "Credentials",
        "OAuthBearer",
        "Plain",
        "Scram",
        "TokenProvider",
    ),
    "coterie.client.secret": ("Secret",),
    "coterie.client.sync": ("SyncAdmin",),
    "coterie.client.tls": (
        "TlsOptions",
        "make_context",
    ),
    "coterie.errors": (
        "ApiError",
        "AuthenticationFailed",
        "ClientError",
        "CommitRefused",
        "ConnectionLost",
        "CoterieError",
        "MalformedFrame",
        "OperationRefused",
        "RequestTimedOut",
        "SettingError",
        "UnsupportedByBroker",
        "UnsupportedGroupType",
    ),
    "coterie.types": (
        "GroupId",
        "LogOffset",
        "MemberId",
        "ProducerId",
        "ScramMechanism",
        "TopicId",
        "TopicName",
        "TopicPartition",
    ),
    "coterie.wire.compression": ("Codec",),
    "coterie.wire.configs": (
        "ConfigResourceType",
        "ConfigSource",
        "ConfigType",
    ),
    "coterie.wire.error_codes": ("ErrorCode",),
    "coterie.wire.record_batch": ("LogRecord",),
    "coterie.wire.schema": ("Versions",),
}
_WHERE: Final = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "EARLIEST",
    "LATEST",
    "AclBinding",
    "AclBindingFilter",
    "AdminClient",
    "ApiError",
    "Appended",
    "AssignMembers",
    "AssignmentOf",
    "AssignorFunction",
    "AssignorMember",
    "AtTime",
    "AuthenticationFailed",
    "BrokerVersions",
    "ClassicConsumer",
    "ClassicConsumerOptions",
    "ClassicMember",
    "ClassicOptions",
    "ClientAssignor",
    "ClientCredentials",
    "ClientError",
    "ClientOptions",
    "Cluster",
    "ClusterDescription",
    "ClusterFeatures",
    "Codec",
    "CommitRefused",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConnectionLost",
    "Conversation",
    "CoterieError",
    "CreatedTopic",
    "Credentials",
    "ErrorCode",
    "FeatureChange",
    "FeatureUpdate",
    "FirstRecord",
    "FixedToken",
    "Grant",
    "GroupDescription",
    "GroupId",
    "GroupListing",
    "GroupListings",
    "GroupMember",
    "GroupOffsets",
    "GroupState",
    "GroupType",
    "HangingTransaction",
    "JoinedMember",
    "LevelRange",
    "LogDir",
    "LogOffset",
    "LogOffsetInfo",
    "LogRecord",
    "MalformedFrame",
    "Member",
    "MemberDescription",
    "MemberId",
    "MemberOptions",
    "MemberState",
    "MemberToRemove",
    "Metadata",
    "NewRecord",
    "NewTopic",
    "Node",
    "OAuthBearer",
    "Offset",
    "OffsetAndMetadata",
    "OffsetSpec",
    "OnAssigned",
    "OnLost",
    "OnRevoked",
    "OpenTransaction",
    "Operation",
    "OperationRefused",
    "Owned",
    "Partial",
    "PartitionDescription",
    "PatternType",
    "PermissionType",
    "Plain",
    "Principal",
    "Producer",
    "ProducerId",
    "ProducerOptions",
    "ProducerState",
    "Progress",
    "QuotaEntity",
    "QuotaEntityName",
    "QuotaName",
    "RecordReader",
    "RequestTimedOut",
    "ResourceType",
    "Results",
    "Scram",
    "ScramDeletion",
    "ScramInfo",
    "ScramMechanism",
    "ScramUpsertion",
    "Secret",
    "SettingError",
    "ShareGroupOffsets",
    "ShareOffset",
    "SpecialOffset",
    "Subtopology",
    "SyncAdmin",
    "Task",
    "Tasks",
    "TlsOptions",
    "TokenFile",
    "TokenProvider",
    "TopicDescription",
    "TopicId",
    "TopicName",
    "TopicPartition",
    "Topology",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "TransactionState",
    "UnsecuredToken",
    "UnsupportedByBroker",
    "UnsupportedGroupType",
    "Versions",
    "make_context",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
