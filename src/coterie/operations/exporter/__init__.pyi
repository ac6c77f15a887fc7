from coterie.operations.exporter.exposition import (
    Granularity as Granularity,
    Style as Style,
)
from coterie.operations.exporter.names import NAMES as NAMES
from coterie.operations.exporter.poll import (
    Poll as Poll,
    PollOptions as PollOptions,
    PolledGroup as PolledGroup,
    PolledPartition as PolledPartition,
    Poller as Poller,
    TopicFilter as TopicFilter,
)
from coterie.operations.exporter.service import (
    Exporter as Exporter,
    poll_forever as poll_forever,
    serve as serve,
)
