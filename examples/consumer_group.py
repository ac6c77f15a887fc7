"""Read a topic with a consumer group (KIP-848) on a Coterie server.

Start a server with `coterie serve`, then run this script. A second instance of the
script is assigned half of the partitions. The argument is HOST:PORT, by default
localhost:9092.
"""

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
server: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
admin = AdminClient(server)
if "orders" not in admin.list_topics(timeout=10).topics:
    admin.create_topics([NewTopic("orders", 4)])["orders"].result()

producer = Producer(server)
for number in range(20):
    producer.produce("orders", f"order {number}")
producer.flush()

group = {"group.id": "billing", "group.protocol": "consumer"}
offsets = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
consumer = Consumer({**server, **group, **offsets})
consumer.subscribe(["orders"])
try:
    for _ in range(20):
        while (record := consumer.poll(1.0)) is None or record.error():
            pass
        print(f"partition {record.partition()}: {(record.value() or b'').decode()}")
    consumer.commit(asynchronous=False)
finally:
    consumer.close()
