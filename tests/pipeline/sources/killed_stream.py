"""A process that reads a log as a stream and is killed, Spark and all, when it has
written some micro-batches: `killed_stream.py LOG OUT CHECKPOINT BATCHES`."""

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

from coterie.pipeline.session.session import Engine, start_session
from coterie.pipeline.sources.data_source import NAME, register


class Killer(StreamingQueryListener):
    """Kills after some progress; the next micro-batch is under way by then."""

    def __init__(self, after: int) -> None:
        self._after = after

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Count micro-batches."""
        if event.progress.batchId + 1 >= self._after:
            os.killpg(0, signal.SIGKILL)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to do."""


def main(log: str, out: str, checkpoint: str, batches: str) -> None:
    """See the module's docstring."""
    spark = start_session(Engine(memory="1g", shuffle_partitions=2))
    register(spark)
    spark.streams.addListener(Killer(int(batches)))
    stream = spark.readStream.format(NAME).option("maxRecordsPerTrigger", 6).load(log)
    writer = stream.writeStream.format("parquet").option("path", out)
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
