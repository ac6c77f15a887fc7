from coterie.auth.acl import (
    AclBinding as AclBinding,
    AclBindingFilter as AclBindingFilter,
    Operation as Operation,
    PatternType as PatternType,
    PermissionType as PermissionType,
    Principal as Principal,
    ResourceType as ResourceType,
)
from coterie.client.admin.acls import Acls as Acls
from coterie.client.admin.admin_client import AdminClient as AdminClient
from coterie.client.admin.brokers import (
    BrokerVersions as BrokerVersions,
    Brokers as Brokers,
    LogDir as LogDir,
)
from coterie.client.admin.configs import (
    ConfigEntry as ConfigEntry,
    ConfigResource as ConfigResource,
    ConfigSynonym as ConfigSynonym,
    Configs as Configs,
)
from coterie.client.admin.features import (
    ClusterFeatures as ClusterFeatures,
    Features as Features,
    LevelRange as LevelRange,
)
from coterie.client.admin.fetch import FirstRecord as FirstRecord, Records as Records
from coterie.client.admin.group_calls import (
    Groups as Groups,
    MemberToRemove as MemberToRemove,
)
from coterie.client.admin.group_offsets import (
    CommittedOffset as CommittedOffset,
    CommittedOffsets as CommittedOffsets,
    GroupOffsets as GroupOffsets,
)
from coterie.client.admin.groups import (
    ClusterDescription as ClusterDescription,
    GroupDescription as GroupDescription,
    GroupListing as GroupListing,
    GroupListings as GroupListings,
    GroupState as GroupState,
    GroupType as GroupType,
    MemberDescription as MemberDescription,
    Node as Node,
    Subtopology as Subtopology,
    Task as Task,
    Tasks as Tasks,
    Topology as Topology,
)
from coterie.client.admin.log_offsets import (
    AtTime as AtTime,
    EARLIEST as EARLIEST,
    LATEST as LATEST,
    LogOffsetInfo as LogOffsetInfo,
    Logs as Logs,
    OffsetSpec as OffsetSpec,
    SpecialOffset as SpecialOffset,
)
from coterie.client.admin.quotas import (
    QuotaEntity as QuotaEntity,
    QuotaEntityName as QuotaEntityName,
    QuotaName as QuotaName,
    Quotas as Quotas,
)
from coterie.client.admin.results import (
    Partial as Partial,
    Progress as Progress,
    Results as Results,
)
from coterie.client.admin.share_groups import (
    ShareGroupOffsets as ShareGroupOffsets,
    ShareGroups as ShareGroups,
    ShareOffset as ShareOffset,
)
from coterie.client.admin.topics import (
    CreatedTopic as CreatedTopic,
    NewTopic as NewTopic,
    PartitionDescription as PartitionDescription,
    TopicDescription as TopicDescription,
    Topics as Topics,
)
from coterie.client.admin.transactions import (
    HangingTransaction as HangingTransaction,
    OpenTransaction as OpenTransaction,
    ProducerState as ProducerState,
    TransactionDescription as TransactionDescription,
    TransactionListing as TransactionListing,
    TransactionListings as TransactionListings,
    TransactionState as TransactionState,
    Transactions as Transactions,
)
from coterie.client.admin.users import (
    ScramDeletion as ScramDeletion,
    ScramInfo as ScramInfo,
    ScramUpsertion as ScramUpsertion,
    ScramUsers as ScramUsers,
)
from coterie.client.classic_member import (
    AssignMembers as AssignMembers,
    ClassicMember as ClassicMember,
    ClassicOptions as ClassicOptions,
    Metadata as Metadata,
)
from coterie.client.classic_requests import JoinedMember as JoinedMember
from coterie.client.client_assignors import (
    AssignmentOf as AssignmentOf,
    AssignorFunction as AssignorFunction,
    AssignorMember as AssignorMember,
    ClientAssignor as ClientAssignor,
)
from coterie.client.cluster import Cluster as Cluster
from coterie.client.group_member import (
    GroupMember as GroupMember,
    MemberOptions as MemberOptions,
)
from coterie.client.member import (
    CommonOptions as CommonOptions,
    Member as Member,
    OnAssigned as OnAssigned,
    OnLost as OnLost,
    OnRevoked as OnRevoked,
    Owned as Owned,
)
from coterie.client.member_offsets import Offset as Offset
from coterie.client.member_states import MemberState as MemberState
from coterie.client.oauth import (
    ClientCredentials as ClientCredentials,
    FixedToken as FixedToken,
    Grant as Grant,
    TokenFile as TokenFile,
    UnsecuredToken as UnsecuredToken,
)
from coterie.client.options import ClientOptions as ClientOptions
from coterie.client.producer import (
    Appended as Appended,
    NewRecord as NewRecord,
    Producer as Producer,
    ProducerOptions as ProducerOptions,
)
from coterie.client.record_reader import RecordReader as RecordReader
from coterie.client.sasl import (
    Conversation as Conversation,
    Credentials as Credentials,
    OAuthBearer as OAuthBearer,
    Plain as Plain,
    Scram as Scram,
    TokenProvider as TokenProvider,
)
from coterie.client.secret import Secret as Secret
from coterie.client.sync import SyncAdmin as SyncAdmin
from coterie.client.tls import TlsOptions as TlsOptions, make_context as make_context
from coterie.errors import (
    ApiError as ApiError,
    AuthenticationFailed as AuthenticationFailed,
    ClientError as ClientError,
    CommitRefused as CommitRefused,
    ConnectionLost as ConnectionLost,
    CoterieError as CoterieError,
    MalformedFrame as MalformedFrame,
    OperationRefused as OperationRefused,
    RequestTimedOut as RequestTimedOut,
    SettingError as SettingError,
    UnsupportedByBroker as UnsupportedByBroker,
    UnsupportedGroupType as UnsupportedGroupType,
)
from coterie.types import (
    GroupId as GroupId,
    LogOffset as LogOffset,
    MemberId as MemberId,
    ProducerId as ProducerId,
    ScramMechanism as ScramMechanism,
    TopicId as TopicId,
    TopicName as TopicName,
    TopicPartition as TopicPartition,
)
from coterie.wire.compression import Codec as Codec
from coterie.wire.configs import (
    ConfigResourceType as ConfigResourceType,
    ConfigSource as ConfigSource,
    ConfigType as ConfigType,
)
from coterie.wire.error_codes import ErrorCode as ErrorCode
from coterie.wire.record_batch import LogRecord as LogRecord
from coterie.wire.schema import Versions as Versions
