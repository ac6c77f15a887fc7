"""`coterie topics records produce`: send the lines of stdin as records."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from coterie import client
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, run_on_cluster
from coterie.cli.durations import whole_number
from coterie.cli.output import outcome as out
from coterie.cli.output.emit import write_message
from coterie.cli.topics.record_items import read_base64, read_json_line
from coterie.errors import ApiError, ClientError, CoterieError, SettingError, code_of
from coterie.types import TopicPartition

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_LINES: Final = "lines"
_JSON_LINES: Final = "jsonl"
_WHOLE: Final = "whole"


def _declare_produce(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="topic name")
    group = parser.add_argument_group("records")
    add = group.add_argument
    add(
        "--format",
        choices=(_LINES, _JSON_LINES, _WHOLE),
        default=_LINES,
        help="lines: each line is a value, or key and value with --key-separator; "
        "jsonl: each line is an object as `records read --output jsonl` prints it; "
        "whole: all of stdin is one value (default lines)",
    )
    add("--key-separator", metavar="TEXT", help="text between key and value of a line")
    add("--key", metavar="TEXT", help="key of every record")
    add(
        "--null-value",
        metavar="TEXT",
        help="values with exactly this text are null: tombstones",
    )
    add("--base64", action="store_true", help="keys and values of lines are base64")
    add(
        "--header",
        metavar="NAME=VALUE",
        dest="headers",
        action="append",
        help="header of every record; may be repeated",
    )
    add(
        "--partition",
        metavar="N",
        type=whole_number("a partition", least=0),
        help="partition of every record (default: by key, as Kafka's Java producer; "
        "records without a key stay together for a while)",
    )
    add(
        "--ignore-partitions",
        action="store_true",
        help="choose partitions by key, not those of JSON lines",
    )
    group = parser.add_argument_group("producer")
    add = group.add_argument
    add("--compression", choices=_CODECS, default="none", help="codec (default none)")
    add(
        "--acks",
        choices=("all", "1"),
        default="all",
        help="all in-sync replicas, or 1: only the leader (default all)",
    )
    add(
        "--no-idempotence",
        action="store_true",
        help="without a producer id: a retry may write a record twice",
    )


class Template(NamedTuple):
    """What every record of a run has, and how lines become records."""

    form: str
    separator: bytes | None
    null_value: bytes | None
    is_base64: bool
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    has_own_partitions: bool

    @classmethod
    def of(cls, options: argparse.Namespace) -> Template:
        """Return the template of the options. Raises SettingError."""
        is_json = options.format == _JSON_LINES
        if options.key_separator is not None and options.format != _LINES:
            raise SettingError("--key-separator is for --format lines")
        if options.key_separator == "":
            raise SettingError("--key-separator is empty")
        if options.key is not None and options.key_separator is not None:
            raise SettingError("use either --key or --key-separator")
        if is_json and (options.base64 or options.null_value is not None):
            raise SettingError(
                "--base64 and --null-value are not for JSON lines, which have "
                '"value_encoding": "base64" and null'
            )
        if options.ignore_partitions and (options.partition is not None or not is_json):
            raise SettingError(
                "--ignore-partitions is for --format jsonl without --partition"
            )
        return cls(
            options.format,
            _optional_bytes(options.key_separator),
            _optional_bytes(options.null_value),
            options.base64,
            _optional_bytes(options.key),
            tuple(map(_read_header, options.headers or ())),
            options.partition,
            is_json and not options.ignore_partitions,
        )

    def record(self, line: bytes) -> client.NewRecord:
        """Return the record of a line, or of the whole input. Raises SettingError."""
        if self.form == _JSON_LINES:
            record = read_json_line(line)
            own = record.partition if self.has_own_partitions else None
            return record._replace(
                key=record.key if self.key is None else self.key,
                headers=(*record.headers, *self.headers),
                partition=own if self.partition is None else self.partition,
            )
        key: bytes | None = self.key
        value: bytes | None = line
        if self.separator is not None:
            key, separator, value = line.partition(self.separator)
            if not separator:
                raise SettingError(f"it has no separator {self.separator.decode()!r}")
            if self.is_base64:
                key = read_base64(key, "the key")
        if value == self.null_value and self.null_value is not None:
            value = None
        elif self.is_base64 and value is not None:
            value = read_base64(value, "the value")
        return client.NewRecord(value, key, self.headers, self.partition)


def _optional_bytes(text: str | None) -> bytes | None:
    # Bytes of the command line that are not UTF-8 are surrogates in `text`.
    return None if text is None else os.fsencode(text)


def _read_header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"--header: {text!r} is not NAME=VALUE")
    return name, os.fsencode(value)


def produce_records(options: argparse.Namespace) -> int:
    """Send stdin as records. Raises SettingError."""
    template = Template.of(options)  # Report a usage error before connecting.
    return run_on_cluster(options, partial(_produce, template))


async def _produce(template: Template, run: Run) -> out.Outcome:
    """Send chunks of stdin until its end or the first error; return a row for each
    partition."""
    from coterie.cli.topics.stdin_lines import read_chunks  # imports asyncio

    options = run.options
    if sys.stdin.isatty() and run.io.stderr.isatty():
        write_message(run.io, "one record a line; Ctrl-D ends the input")
    producer = client.Producer(run.admin.cluster, _producer_options(options))
    totals: dict[TopicPartition, client.Appended] = {}
    failures: list[out.Failure] = []
    lines = 0
    try:
        async for chunk in read_chunks(run.progress, is_whole=template.form == _WHOLE):
            records, error = _records(template, chunk, lines)
            lines += len(chunk)
            is_refused = False
            try:
                if records:
                    appended = await producer.produce(options.topic, records)
                    is_refused = _add(totals, appended)
            except CoterieError as failure:
                failures.append(
                    out.Failure.of("topic", options.topic, _explained(failure))
                )
                is_refused = True
            if error:
                failures.append(out.Failure.of("input", "", error))
            if error or is_refused:
                break
    except ClientError as broken:  # stdin cannot be read further
        failures.append(out.Failure.of("input", "", broken))
    return _outcome(totals, failures)


def _explained(error: CoterieError) -> CoterieError:
    """Return an error of the producer, with what to do about a missing right."""
    code = client.ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if code_of(error) is code:
        return ApiError(
            code,
            f"{error}: IDEMPOTENT_WRITE on the cluster, before Kafka 2.8; or use "
            "--no-idempotence",
        )
    return error


def _producer_options(options: argparse.Namespace) -> client.ProducerOptions:
    return client.ProducerOptions(
        codec=client.Codec[options.compression.upper()],
        needs_all_replicas=options.acks == "all",
        is_idempotent=not options.no_idempotence,
    )


def _records(
    template: Template, chunk: Sequence[bytes], lines: int
) -> tuple[list[client.NewRecord], CoterieError | None]:
    """Return the records of lines, up to the first that cannot be read, with its
    error."""
    records = []
    for number, line in enumerate(chunk, start=lines + 1):
        if template.form == _JSON_LINES and not line.strip():
            continue
        try:
            records.append(template.record(line))
        except SettingError as error:
            where = "stdin" if template.form == _WHOLE else f"line {number}"
            return records, ClientError(
                f"{where}: {error}; nothing was sent from here on"
            )
    return records, None


def _add(
    totals: dict[TopicPartition, client.Appended],
    appended: dict[TopicPartition, client.Appended],
) -> bool:
    """Add the outcomes of one call to the totals; return whether one is an error."""
    for key, each in appended.items():
        total = totals.setdefault(key, each)
        if total is each:
            continue
        total.count += each.count
        total.failed += each.failed
        total.error = each.error
        if total.first_offset is None:
            total.first_offset = each.first_offset
        if each.last_offset is not None:
            total.last_offset = each.last_offset
    return any(each.error for each in appended.values())


def _outcome(
    totals: dict[TopicPartition, client.Appended], failures: Sequence[out.Failure]
) -> out.Outcome:
    errors = [each.error for each in totals.values() if each.error]
    items: list[out.Item] = [
        {
            "topic": key.topic,
            "partition": key.partition,
            "records": each.count,
            "first_offset": each.first_offset,
            "last_offset": each.last_offset,
            "failed": each.failed,
            "error": out.error_item(each.error),
        }
        for key, each in sorted(totals.items())
    ]
    produced = sum(each.count for each in totals.values())
    return out.Outcome(
        schema="coterie.topics.records.produce",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("records", "#RECORDS"),
            out.Column("first_offset", "FIRST-OFFSET"),
            out.Column("last_offset", "LAST-OFFSET"),
            out.Column("failed", "#FAILED", is_wide=not errors),
            out.Column("error", "ERROR", is_wide=not errors, show=out.show_error),
        ),
        items=tuple(items),
        failures=tuple(failures),
        summary={"records": produced},
        notes=(
            *(f"error: {each}" for each in errors),
            f"{produced} record{' was' if produced == 1 else 's were'} produced",
        ),
    )


PRODUCE: Final = Command(
    description="""\
Produce records from stdin: each line is a value, a key and a value, or a JSON object.

Records are sent as lines arrive, in batches while more arrive than are sent, and memory
is bounded. The producer is idempotent. It stops at the first line that cannot be read
and at the first error of a partition; the rows count what was appended.
""",
    examples="""\
examples:
  echo hello | coterie topics records produce orders
      one value
  printf 'k1:v1\\nk2:v2\\n' | coterie topics records produce orders --key-separator :
      two keys and values
  coterie topics records produce orders --format jsonl < records.jsonl
      with headers, timestamps and partitions, as `records read -o jsonl` printed them
  echo '{"key": "k1", "value": null}' |
    coterie topics records produce users --format jsonl
      a tombstone
  coterie topics records produce images --format whole --key cat.png < cat.png
      a file as one value
  coterie topics records produce logs --compression zstd --header host=a1 < app.log
      compressed, with a header

a JSON line:
  {"key": "k", "value": "text", "headers": [{"key": "h", "value": "AA==",
   "encoding": "base64"}], "partition": 0, "timestamp_ms": 1764000000000}
  Only "value" is needed. "key_encoding" and "value_encoding" may be "base64".

exit codes: 0 success, 1 a record could not be read or appended, 2 usage error
""",
    options=(_declare_produce, *CLUSTER_OPTIONS),
    run=produce_records,
)
