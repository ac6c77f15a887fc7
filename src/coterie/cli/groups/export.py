"""`coterie groups export`: a Prometheus exporter of the groups of any cluster."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from coterie import operations as ops
from coterie.cli import connect
from coterie.cli.command import Command
from coterie.cli.connect import add_connection_options, parse_address
from coterie.cli.durations import whole_duration_of
from coterie.cli.groups.selection import add_selection_options, read_selection
from coterie.display import printable
from coterie.operations import exporter
from coterie.portable_os import STOP_SIGNALS, handle_signals

_DEFAULT_LISTEN: Final = "127.0.0.1:9308"
_DEFAULT_INTERVAL_MS: Final = 30_000


def _declare_export(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("export")
    add = group.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        type=parse_address,
        default=_DEFAULT_LISTEN,
        help="address to serve HTTP on, without authentication; port 0 selects a free "
        f"port (default {_DEFAULT_LISTEN})",
    )
    add(
        "--once",
        action="store_true",
        help="poll once and print the metrics, for the textfile collector",
    )
    add(
        "--interval",
        metavar="DURATION",
        type=whole_duration_of("milliseconds", least=1_000, most=86_400_000),
        default=_DEFAULT_INTERVAL_MS,
        help="time between the starts of two polls, as in 30s or 5m (default 30s)",
    )
    add(
        "--names",
        choices=("kafka-lag-exporter", "kminion"),
        default="kafka-lag-exporter",
        help="the exporter whose names of metrics and labels are used (default "
        "kafka-lag-exporter)",
    )
    add(
        "--by",
        choices=("partition", "topic", "group"),
        default="partition",
        help="smallest unit with series of its own (default partition)",
    )
    add(
        "--member-labels",
        action="store_true",
        help="add member_host, consumer_id and client_id to series of partitions; each "
        "restart of a consumer creates new series",
    )
    add(
        "--cluster-name",
        metavar="NAME",
        help="value of the label cluster_name (default: the cluster id)",
    )
    add("--no-time-lag", action="store_true", help="leave out lag in seconds")
    add(
        "--read-committed",
        action="store_true",
        help="measure lag up to the last stable offset",
    )
    add(
        "--topic-glob",
        metavar="GLOB",
        action="append",
        default=[],
        help="glob for topics, as in orders-*; other topics, and groups without one, "
        "are left out; may be repeated",
    )
    add(
        "--exclude-topic",
        metavar="GLOB",
        action="append",
        default=[],
        help="glob for topics that are left out; may be repeated",
    )


def run_export(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, or print the metrics of one poll; return the exit
    code. Raises SettingError for an invalid option or setting."""
    import asyncio
    import logging

    poll_options = _poll_options(options)
    style = exporter.Style(
        names=exporter.NAMES[options.names],
        granularity=exporter.Granularity(options.by),
        with_member_labels=options.member_labels,
    )
    service = exporter.Exporter(style, poll_options.interval_ms / 1000)
    if options.once:
        return asyncio.run(_print_once(options, poll_options, service))
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        asyncio.run(_serve(options, poll_options, service))
    except OSError as error:
        host, port = options.listen
        sys.stderr.write(f"coterie: cannot listen on {host}:{port}: {error}\n")
        return 1
    return 0


def _poll_options(options: argparse.Namespace) -> exporter.PollOptions:
    selection = read_selection(options)
    # Partitions are filtered by topic as they are polled, without a query of its own.
    topics = (*sorted(selection.topics), *options.topic_glob)
    return exporter.PollOptions(
        selection=replace(selection, topics=frozenset()),
        topics=exporter.TopicFilter(topics, tuple(options.exclude_topic)),
        interval_ms=options.interval,
        with_time_lag=not options.no_time_lag,
        committed_only=options.read_committed,
        cluster_name=options.cluster_name,
    )


async def _print_once(
    options: argparse.Namespace,
    poll_options: exporter.PollOptions,
    service: exporter.Exporter,
) -> int:
    async with connect.open_admin(options) as admin:
        if not await service.poll(exporter.Poller(admin, poll_options)):
            sys.stderr.write(f"coterie: {printable(service.error or '')}\n")
            return 1
    # The textfile collector exports the same names of its own process.
    for part in service.body(with_process=False).parts():
        sys.stdout.write(part.decode(errors="replace"))
    if service.may_hide_topics:
        sys.stderr.write(f"coterie: warning: {ops.LEFT_OUT}\n")
    for each in service.missing_groups:
        sys.stderr.write(
            f"coterie: there is no group {each!r}: `coterie groups list` shows all\n"
        )
    if failed := service.failed_items:
        sys.stderr.write(
            f"coterie: {failed} nodes, groups or partitions could not be read; see "
            "coterie_exporter_failed_items, and coterie groups describe\n"
        )
    return int(bool(failed or service.missing_groups))


async def _serve(
    options: argparse.Namespace,
    poll_options: exporter.PollOptions,
    service: exporter.Exporter,
) -> None:
    import asyncio

    def ready(address: str) -> None:
        print(f"coterie ready on http://{address}", flush=True)

    connect.read_target(options)  # an invalid setting ends the command at once
    polling = partial(
        exporter.poll_forever,
        partial(connect.open_admin, options),
        poll_options,
        service,
    )
    serving = asyncio.ensure_future(
        exporter.serve(service, polling, options.listen, ready)
    )
    with (
        handle_signals(STOP_SIGNALS, lambda _: serving.cancel()),
        suppress(asyncio.CancelledError),
    ):
        await serving


EXPORT: Final = Command(
    description="""\
Export the lag of groups to Prometheus: an HTTP server of /metrics, /health and /.

The cluster is polled at an interval, whatever the number of scrapes; a scrape returns
the last complete poll. It has the format OpenMetrics if the scraper accepts it, else
Prometheus' text format. A value that is unknown has no series, and a group that went
away has none after the next poll.

/health is 503 until the first successful poll, and when the last one is older than
three intervals; /metrics then has only the metrics of the exporter itself
(coterie_exporter_...).

There is no authentication and no TLS: listen on loopback, or restrict access in the
network. examples/monitoring has a dashboard for Grafana and alert rules.
""",
    examples="""\
examples:
  coterie groups export
      every group of the cluster, at http://127.0.0.1:9308/metrics
  coterie groups export --listen 0.0.0.0:9308 --interval 1m --exclude 'console-*'
      to other machines, every minute, without groups of consoles
  coterie groups export --glob 'orders-*' --topic-glob 'orders.*' --by group
      the groups of one team, without series for partitions
  coterie groups export --names kminion --cluster-name prod
      for dashboards of kminion
  coterie groups export --once > /var/lib/node_exporter/kafka.prom
      for the textfile collector, by cron

exit codes: 0 stopped by a signal, or success of --once; 1 could not listen, or with
--once something could not be read or a named group does not exist; 2 usage error
""",
    options=(add_selection_options, _declare_export, add_connection_options),
    run=run_export,
)
