from coterie.testing.async_kafka import (
    AsyncGroup as AsyncGroup,
    AsyncKafka as AsyncKafka,
)
from coterie.testing.groups import (
    Delivery as Delivery,
    Group as Group,
    RecordId as RecordId,
)
from coterie.testing.kafka import Kafka as Kafka
from coterie.testing.topics import Record as Record
