"""The metrics of a poll in the text format of Prometheus and in OpenMetrics.

The text is rendered once per poll, and kept in gzip's format alone, at a twentieth of
its size: a scrape in gzip costs the sending, another one the unpacking as it is sent.
Both formats have the same lines but for the names of counters, so gauges are rendered
once. An unknown value has no line.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from coterie import client
from coterie.http_endpoint import Body
from coterie.operations.exporter import names as metrics
from coterie.operations.exporter.names import Family, Names
from coterie.operations.exporter.poll import Poll, PolledGroup, PolledPartition

Samples: TypeAlias = Iterator[str]

_GZIP: Final = 31
"""zlib's code for a window of 32 KiB in gzip's format."""
_GZIP_LEVEL: Final = 1
"""Repeated labels compress well at every level; this is the fastest."""
_PIECE_BYTES: Final = 262_144


class Granularity(Enum):
    """The smallest unit that has series of its own."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The form of metrics: their names, granularity and labels."""

    names: Names = metrics.LAG_EXPORTER
    granularity: Granularity = Granularity.PARTITION
    with_member_labels: bool = False
    """Whether series of partitions name the member that owns them."""


class Text:
    """Rendered metrics in both formats. Responses share the compressed bytes of the
    gauges."""

    def __init__(
        self, gauges: Iterable[bytes], counters: bytes, counters_openmetrics: bytes
    ) -> None:
        packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)
        size = 0
        parts: list[bytes] = []
        for text in gauges:
            size += len(text)
            view = memoryview(text)
            parts += (
                packer.compress(view[at : at + _PIECE_BYTES])
                for at in range(0, len(view), _PIECE_BYTES)
            )
        self._parts = tuple(filter(None, parts))
        # A copy of the compressor continues the gauges with other bytes.
        self._packer = packer
        self._size = size
        self._counters = (counters, counters_openmetrics)

    def packed(self, *, openmetrics: bool, end: bytes = b"") -> Body:
        """Return the metrics and `end` in gzip's format."""
        packer = self._packer.copy()
        counters = packer.compress(self._counters[openmetrics])
        return Body.of(*self._parts, counters, packer.compress(end) + packer.flush())

    def plain(self, *, openmetrics: bool, end: bytes = b"") -> Body:
        """Return the metrics and `end`, unpacked as they are read."""
        last = self._counters[openmetrics] + end

        def unpack() -> Iterator[bytes]:
            unpacker = zlib.decompressobj(_GZIP)
            for part in (*self._parts, self._packer.copy().flush()):
                yield unpacker.decompress(part)
            yield last

        return Body(self._size + len(last), unpack)


def render(poll: Poll, style: Style) -> Text:
    """Return the metrics of a poll."""
    return _Renderer(poll, style).render()


def escape(value: str) -> str:
    """Escape the value of a label."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def header(name: str, kind: str, text: str, *, openmetrics: bool = False) -> str:
    """Return the HELP and TYPE lines of a metric. In OpenMetrics they name a counter
    without _total."""
    if openmetrics and kind == "counter":
        name = name.removesuffix("_total")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


class _TopicSums(NamedTuple):
    """The sums of a group on one topic, or on all."""

    lag: int | None
    lag_max: int | None
    offset: int | None
    time_lag_ms: int | None

    @classmethod
    def of(cls, partitions: Iterable[PolledPartition]) -> _TopicSums:
        lags, offsets, times = [], [], []
        for each in partitions:
            if each.lag.lag is not None:
                lags.append(each.lag.lag)
            if each.lag.committed is not None:
                offsets.append(each.lag.committed.offset)
            if each.time_lag is not None and each.time_lag.ms is not None:
                times.append(each.time_lag.ms)
        return cls(
            sum(lags) if lags else None,
            max(lags, default=None),
            sum(offsets) if offsets else None,
            max(times, default=None),
        )


class _Group(NamedTuple):
    """A group with its sums and its labels, without the closing brace."""

    polled: PolledGroup
    labels: str
    sums: _TopicSums
    topics: dict[str, _TopicSums]
    partitions: list[tuple[str, PolledPartition]]
    """The partitions with their labels, when they have series of their own."""


class _Renderer:
    """The rendering of one poll: a method for each kind of metric, and the texts of
    labels that many lines share."""

    def __init__(self, poll: Poll, style: Style) -> None:
        self._poll = poll
        self._style = style
        self._names = style.names
        name = escape(poll.cluster_name)
        self._cluster = "" if style.names.is_kminion else f'cluster_name="{name}",'
        self._partition_labels = {
            at: f'{style.names.topic}="{escape(at.topic)}",'
            f'{style.names.partition}="{at.partition}"'
            for at in sorted({*poll.log_starts, *poll.log_ends})
        }
        self._groups = [self._group(each) for each in poll.groups]

    def _group(self, polled: PolledGroup) -> _Group:
        granularity = self._style.granularity
        group_id = escape(polled.lag.group_id)
        labels = f'{{{self._cluster}{self._names.group}="{group_id}"'
        topics: dict[str, list[PolledPartition]] = {}
        if granularity is not Granularity.GROUP:
            for each in polled.partitions:
                topics.setdefault(each.at.topic, []).append(each)
        partitions = []
        if granularity is Granularity.PARTITION:
            partitions = [
                (self._labels(labels, each), each) for each in polled.partitions
            ]
        return _Group(
            polled,
            labels,
            _TopicSums.of(polled.partitions),
            {topic: _TopicSums.of(parts) for topic, parts in topics.items()},
            partitions,
        )

    def render(self) -> Text:
        gauges = (self._family(family, samples) for family, samples in self._gauges())
        name = self._names.of(metrics.REBALANCES)
        counters = "".join(self._rebalances(name))
        heads = [
            header(name, "counter", metrics.REBALANCES.help, openmetrics=each)
            for each in (False, True)
        ]
        plain, openmetrics = ((head + counters).encode() for head in heads)
        return Text(gauges, plain, openmetrics)

    def _family(self, family: Family, samples: Iterable[str]) -> bytes:
        """Return the lines of a metric, or nothing when it has no sample."""
        lines = "".join(samples)
        if not lines:
            return b""
        head = header(self._names.of(family), "gauge", family.help)
        return (head + lines).encode(errors="replace")

    def _gauges(self) -> Iterator[tuple[Family, Samples]]:
        if self._style.granularity is Granularity.PARTITION:
            yield from self._partition_gauges()
        if self._style.granularity is not Granularity.GROUP:
            yield from self._topic_gauges()
        yield from self._lag_gauges()
        yield from self._state_gauges()
        name = self._names.of(metrics.POLL_TIME)
        labels = f"{{{self._cluster.rstrip(',')}}}" if self._cluster else ""
        line = f"{name}{labels} {self._poll.duration_ms}\n"
        yield metrics.POLL_TIME, iter((line,))

    # Partitions.

    def _partition_gauges(self) -> Iterator[tuple[Family, Samples]]:
        poll = self._poll
        for family, offsets in (
            (metrics.LOG_START, poll.log_starts),
            (metrics.LOG_END, poll.log_ends),
        ):
            start = f"{self._names.of(family)}{{{self._cluster}"
            yield (
                family,
                (
                    f"{start}{self._partition_labels[at]}}} {offsets[at]}\n"
                    for at in sorted(offsets)
                ),
            )
        yield metrics.OFFSET, self._offsets()
        yield metrics.LAG, self._lags()
        yield metrics.LAG_SECONDS, self._lag_seconds()
        yield metrics.LAG_SECONDS_ERROR, self._lag_seconds_errors()

    def _labels(self, group: str, part: PolledPartition) -> str:
        labels = self._partition_labels.get(part.at)
        if labels is None:  # the log could not be read
            topic, partition = part.at
            labels = (
                f'{self._names.topic}="{escape(topic)}",'
                f'{self._names.partition}="{partition}"'
            )
            self._partition_labels[part.at] = labels
        if not self._style.with_member_labels:
            return f"{group},{labels}}}"
        lag = part.lag
        return (
            f'{group},{labels},member_host="{escape(lag.host or "")}",'
            f'consumer_id="{escape(lag.member_id or "")}",'
            f'client_id="{escape(lag.client_id or "")}"}}'
        )

    def _offsets(self) -> Samples:
        name = self._names.of(metrics.OFFSET)
        for group in self._groups:
            for labels, part in group.partitions:
                if (committed := part.lag.committed) is not None:
                    yield f"{name}{labels} {committed.offset}\n"

    def _lags(self) -> Samples:
        name = self._names.of(metrics.LAG)
        for group in self._groups:
            for labels, part in group.partitions:
                if part.lag.lag is not None:
                    yield f"{name}{labels} {part.lag.lag}\n"

    def _lag_seconds(self) -> Samples:
        name = self._names.of(metrics.LAG_SECONDS)
        for group in self._groups:
            for labels, part in group.partitions:
                if part.time_lag is not None and part.time_lag.ms is not None:
                    yield f"{name}{labels} {part.time_lag.ms / 1000}\n"

    def _lag_seconds_errors(self) -> Samples:
        name = self._names.of(metrics.LAG_SECONDS_ERROR)
        for group in self._groups:
            for labels, part in group.partitions:
                if part.time_lag is not None and part.time_lag.error_ms:
                    yield f"{name}{labels} {part.time_lag.error_ms / 1000}\n"

    # Topics.

    def _topic_gauges(self) -> Iterator[tuple[Family, Samples]]:
        yield metrics.TOPIC_LAG, self._topic_sums(metrics.TOPIC_LAG, 0)
        yield metrics.TOPIC_OFFSET, self._topic_sums(metrics.TOPIC_OFFSET, 2)
        yield metrics.TOPIC_LAG_SECONDS, self._topic_lag_seconds()
        yield metrics.TOPIC_MEMBERS, self._assigned(metrics.TOPIC_MEMBERS)
        yield metrics.TOPIC_ASSIGNED, self._assigned(metrics.TOPIC_ASSIGNED)

    def _topic_labels(self, group: _Group, topic: str) -> str:
        return f'{group.labels},{self._names.topic}="{escape(topic)}"}}'

    def _topic_sums(self, family: Family, field: int) -> Samples:
        name = self._names.of(family)
        for group in self._groups:
            for topic, sums in group.topics.items():
                if (value := sums[field]) is not None:
                    yield f"{name}{self._topic_labels(group, topic)} {value}\n"

    def _topic_lag_seconds(self) -> Samples:
        name = self._names.of(metrics.TOPIC_LAG_SECONDS)
        for group in self._groups:
            for topic, sums in group.topics.items():
                if sums.time_lag_ms is not None:
                    labels = self._topic_labels(group, topic)
                    yield f"{name}{labels} {sums.time_lag_ms / 1000}\n"

    def _assigned(self, family: Family) -> Samples:
        """Count the members with partitions of each topic, or these partitions."""
        name = self._names.of(family)
        counts_members = family is metrics.TOPIC_MEMBERS
        for group in self._groups:
            description = group.polled.lag.description
            counts: Counter[str] = Counter()
            for member in description.members if description else ():
                topics = [each.topic for each in member.assignment]
                counts.update(set(topics) if counts_members else topics)
            for topic in sorted(counts.keys() & group.topics.keys()):
                labels = self._topic_labels(group, topic)
                yield f"{name}{labels} {counts[topic]}\n"

    # Groups.

    def _lag_gauges(self) -> Iterator[tuple[Family, Samples]]:
        sums = [(group, group.sums) for group in self._groups]
        yield (
            metrics.MAX_LAG,
            self._of_groups(metrics.MAX_LAG, ((each, s.lag_max) for each, s in sums)),
        )
        yield (
            metrics.SUM_LAG,
            self._of_groups(metrics.SUM_LAG, ((each, s.lag) for each, s in sums)),
        )
        seconds = (
            (each, None if s.time_lag_ms is None else s.time_lag_ms / 1000)
            for each, s in sums
        )
        yield (
            metrics.MAX_LAG_SECONDS,
            self._of_groups(metrics.MAX_LAG_SECONDS, seconds),
        )
        methods = (
            (
                group,
                Counter(
                    part.time_lag.method.value
                    for part in group.polled.partitions
                    if part.time_lag is not None
                ),
            )
            for group in self._groups
        )
        yield metrics.METHODS, self._by_word(metrics.METHODS, "method", methods)
        statuses = (
            (
                group,
                Counter(part.lag.lag_status.value for part in group.polled.partitions),
            )
            for group in self._groups
        )
        yield metrics.STATUSES, self._by_word(metrics.STATUSES, "status", statuses)

    def _of_groups(
        self, family: Family, values: Iterable[tuple[_Group, float | None]]
    ) -> Samples:
        name = self._names.of(family)
        for group, value in values:
            if value is not None:
                yield f"{name}{group.labels}}} {value}\n"

    def _by_word(
        self, family: Family, label: str, values: Iterable[tuple[_Group, Counter[str]]]
    ) -> Samples:
        name = self._names.of(family)
        for group, counts in values:
            for word, count in sorted(counts.items()):
                yield f'{name}{group.labels},{label}="{word}"}} {count}\n'

    def _state_gauges(self) -> Iterator[tuple[Family, Samples]]:
        yield metrics.INFO, self._infos()
        described = [
            (group, description)
            for group in self._groups
            if (description := group.polled.lag.description) is not None
        ]
        for family, values in (
            (metrics.MEMBERS, [(g, len(d.members)) for g, d in described]),
            (
                metrics.EMPTY_MEMBERS,
                [
                    (g, sum(1 for each in d.members if not each.assignment))
                    for g, d in described
                ],
            ),
            (metrics.EPOCH, [(g, d.group_epoch) for g, d in described]),
            (metrics.ASSIGNMENT_EPOCH, [(g, d.assignment_epoch) for g, d in described]),
            (metrics.GENERATION, [(g, d.generation_id) for g, d in described]),
        ):
            yield family, self._of_groups(family, values)

    def _infos(self) -> Samples:
        name = self._names.of(metrics.INFO)
        for group in self._groups:
            listing, description = group.polled.listing, group.polled.lag.description
            state, kind = listing.state, listing.type
            protocol_type, assignor = listing.protocol_type, ""
            if description is not None:
                state, kind = description.state, description.type
                protocol_type, assignor = (
                    description.protocol_type,
                    description.assignor,
                )
            value = int(not self._names.is_kminion or state is client.GroupState.STABLE)
            yield (
                f"{name}{group.labels},"
                f'state="{state.value if state else ""}",'
                f'type="{kind.value if kind else ""}",'
                f'protocol_type="{escape(protocol_type)}",'
                f'protocol="{escape(assignor)}",'
                f'coordinator_id="{listing.coordinator_id}"}} {value}\n'
            )

    def _rebalances(self, name: str) -> Samples:
        for group in self._groups:
            if group.polled.rebalances is not None:
                yield f"{name}{group.labels}}} {group.polled.rebalances}\n"
