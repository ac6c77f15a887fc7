from coterie.client.admin.acls import Acls as Acls, SyncAcls as SyncAcls
from coterie.client.admin.brokers import Brokers as Brokers, SyncBrokers as SyncBrokers
from coterie.client.admin.configs import Configs as Configs, SyncConfigs as SyncConfigs
from coterie.client.admin.features import (
    Features as Features,
    SyncFeatures as SyncFeatures,
)
from coterie.client.admin.fetch import Records as Records, SyncRecords as SyncRecords
from coterie.client.admin.group_calls import Groups as Groups, SyncGroups as SyncGroups
from coterie.client.admin.group_offsets import (
    CommittedOffsets as CommittedOffsets,
    SyncCommittedOffsets as SyncCommittedOffsets,
)
from coterie.client.admin.log_offsets import Logs as Logs, SyncLogs as SyncLogs
from coterie.client.admin.quotas import Quotas as Quotas, SyncQuotas as SyncQuotas
from coterie.client.admin.share_groups import (
    ShareGroups as ShareGroups,
    SyncShareGroups as SyncShareGroups,
)
from coterie.client.admin.topics import SyncTopics as SyncTopics, Topics as Topics
from coterie.client.admin.transactions import (
    SyncTransactions as SyncTransactions,
    Transactions as Transactions,
)
from coterie.client.admin.users import (
    ScramUsers as ScramUsers,
    SyncScramUsers as SyncScramUsers,
)
