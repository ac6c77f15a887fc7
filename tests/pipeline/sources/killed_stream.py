"""Stream a log into some micro-batches, then kill this process and Spark:
`killed_stream.py LOG OUT CHECKPOINT BATCHES`."""

from __future__ import annotations

import os
import signal
import sys

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from coterie.pipeline.sources.data_source import GROUPS_LOG, register
from coterie.pipeline.spark_session import Engine, start_session


class Killer(StreamingQueryListener):
    """A listener that kills the process group after some micro-batches."""

    def __init__(self, after: int) -> None:
        self._after = after

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Ignore the event."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Kill the process group after the given number of micro-batches."""
        if event.progress.batchId + 1 >= self._after:
            os.killpg(0, signal.SIGKILL)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Ignore the event."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Ignore the event."""


def main(log: str, out: str, checkpoint: str, batches: str) -> None:
    """Stream the log with the listener until the process is killed."""
    spark = start_session(Engine(memory="1g", shuffle_partitions=2))
    register(spark)
    spark.streams.addListener(Killer(int(batches)))
    stream = (
        spark.readStream.format(GROUPS_LOG).option("maxRecordsPerTrigger", 6).load(log)
    )
    writer = stream.writeStream.format("parquet").option("path", out)
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
