"""The commands that are run against every release, in order."""

from __future__ import annotations

from typing import Final, NamedTuple


class Step(NamedTuple):
    """A command, and what its output must contain when it succeeds."""

    name: str
    """The row of the table; a name may have several steps, which must all succeed."""
    line: str
    """The command line without `coterie` and --bootstrap-server."""
    expect: str = ""
    """A regular expression for stdout and stderr together."""
    stdin: str = ""
    needs_member: bool = False
    """Whether a consumer of the group `live` is running."""
    code: int = 0
    """The exit code of success."""


_DROP_IN: Final = "kafka-consumer-groups"
STEPS: Final = (
    Step("config check", "config check", "cluster [A-Za-z0-9_-]{22}"),
    Step("cluster describe", "cluster describe -o json", '"node_id": ?1'),
    Step("cluster describe --api-versions", "cluster describe --api-versions", "FETCH"),
    Step("cluster features", "cluster features"),
    Step(
        "topics create, with numbers",
        "topics create orders --partitions 2 "
        "--replication-factor 1 --config retention.ms=86400000",
        "created",
    ),
    Step(
        "topics create, with numbers",
        "topics create spare --partitions 1 --replication-factor 1",
        "created",
    ),
    Step("topics create, broker's numbers", "topics create plain", "created"),
    Step(
        "topics create --validate-only",
        "topics create no --partitions 1 --replication-factor 1 --validate-only",
        "valid",
    ),
    Step("topics list", "topics list", "orders"),
    Step(
        "topics records produce",
        "topics records produce orders --partition 0",
        stdin="one\ntwo\nthree\n",
    ),
    Step("topics records produce", "topics records produce spare", stdin="one\n"),
    Step(
        "topics records read",
        "topics records read orders --from earliest -o jsonl",
        '"three"',
    ),
    Step("topics describe", "topics describe orders -o json", '"partition": ?1'),
    Step("topics alter", "topics alter orders --partitions 3 --yes", "altered"),
    Step("topics configs show", "topics configs show orders", "86400000"),
    Step(
        "topics configs set",
        "topics configs set orders --config retention.ms=99999999 --yes",
        "set",
    ),
    Step(
        "topics configs unset",
        "topics configs unset orders --config retention.ms --yes",
        "unset",
    ),
    Step(
        "groups offsets set",
        "groups offsets set bill orders:0=1 spare:0=1 --metadata note --yes",
        "done|written|set",
    ),
    Step("groups offsets list", "groups offsets list bill -o json", '"note"'),
    Step("groups offsets export", "groups offsets export bill --to {tmp}/bill.json"),
    Step(
        "groups offsets import",
        "groups offsets import {tmp}/bill.json --group bill --as copy --yes",
    ),
    Step("groups list", "groups list -o json", '"bill"'),
    Step("groups list --state", "groups list --state empty", "bill"),
    Step("groups list --type", "groups list --type classic", "bill"),
    Step("groups describe", "groups describe bill -o json", '"lag": ?2'),
    Step("groups lag", "groups lag bill -o json", '"lag": ?2'),
    Step("groups lag --wide", "groups lag bill --wide"),
    Step("topics consumers", "topics consumers orders", "bill"),
    Step("groups members", "groups members live", "versions-test", needs_member=True),
    Step("groups describe, live", "groups describe live", "orders", needs_member=True),
    Step(
        "groups remove-members",
        "groups remove-members live --all --yes",
        needs_member=True,
    ),
    Step("groups reset --to-earliest", "groups reset bill --to-earliest --yes"),
    Step(
        "groups reset --to-datetime",
        "groups reset bill --to-datetime 2020-01-01T00:00:00.000Z --yes",
    ),
    Step("groups reset --shift-by", "groups reset bill --shift-by 1 --yes"),
    Step("groups clone", "groups clone bill bill-2 --yes"),
    Step(
        "groups plan, apply, undo",
        "groups plan {tmp}/plan.json reset bill --to-latest",
        "plan",
    ),
    Step("groups plan, apply, undo", "groups apply {tmp}/plan.json --yes"),
    Step("groups plan, apply, undo", "groups undo {undo} --yes"),
    Step(
        "groups offsets delete", "groups offsets delete bill --partitions spare:0 --yes"
    ),
    Step("groups delete", "groups delete bill-2 --yes"),
    Step("transactions list", "transactions list"),
    Step(
        "transactions describe",
        "transactions describe none",
        "TRANSACTIONAL_ID_NOT_FOUND",
        code=1,
    ),
    Step("transactions producers", "transactions producers orders:0"),
    Step("transactions find-hanging", "transactions find-hanging orders"),
    Step("quotas list", "quotas list"),
    Step("quotas set", "quotas set --client-id a producer_byte_rate=1048576 --yes"),
    Step(f"{_DROP_IN} --list", f"{_DROP_IN} --list", "bill"),
    Step(f"{_DROP_IN} --list --state", f"{_DROP_IN} --list --state", "bill"),
    Step(f"{_DROP_IN} --describe", f"{_DROP_IN} --describe --group bill", "orders"),
    Step(
        f"{_DROP_IN} --describe --members",
        f"{_DROP_IN} --describe --group bill --members",
    ),
    Step(
        f"{_DROP_IN} --describe --state",
        f"{_DROP_IN} --describe --group bill --state",
        "Empty",
    ),
    Step(
        f"{_DROP_IN} --reset-offsets",
        f"{_DROP_IN} --reset-offsets --group bill "
        "--topic orders --to-earliest --execute",
        "orders",
    ),
    Step(
        f"{_DROP_IN} --delete-offsets",
        f"{_DROP_IN} --delete-offsets --group bill --topic orders",
    ),
    Step(f"{_DROP_IN} --delete", f"{_DROP_IN} --delete --group copy"),
    Step("topics delete", "topics delete plain spare --yes --if-exists", "deleted"),
)
