"""The command lines of the table, made of options, scopes, scenarios and values.

`{broker}` stands for the node's address, `{dead}` for an address where nothing listens,
`{files}` for the folder of the files of `files.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Final, NamedTuple

from coterie.cli.kafka_consumer_groups.options import ACTIONS, OPTIONS, SCENARIOS, Takes

from .cluster import EMPTY_GROUPS, LIVE_GROUPS, OTHER_TYPES, SPARE
from .files import CONFIGS, PLANS

Words = tuple[str, ...]


class Case(NamedTuple):
    """A command line, without `--strict`."""

    words: Words

    @property
    def writes(self) -> bool:
        """Whether it may change groups, so that they are made again for each tool."""
        return any(word in _CHANGING for word in self.words)


_CHANGING: Final = ("--execute", "--delete", "--delete-offsets")
AT: Final = ("--bootstrap-server", "{broker}")
_OURS: Final = [each for each in OPTIONS if not each.is_addition]
_WITH_ARGUMENT: Final = [each for each in _OURS if each.takes is Takes.ARGUMENT]
_NUMBERS: Final = (
    *("", "x", "1.5", "1e3", "0x10", "+2", "-2", " 2", "2 ", "1_0", "٢"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809"),
)
VALUES: Final = {
    "to-offset": "3",
    "shift-by": "1",
    "to-datetime": "2020-01-01T00:00:00.000",
    "by-duration": "P1D",
    "from-file": "{files}/plan.csv",
    "topic": "orders",
    "group": EMPTY_GROUPS[0],
}


def table() -> list[Case]:
    """Return every case, each once."""
    reads = (*parsing(), *checks(), *lists(), *descriptions(), *connections())
    reads += (*time_outs(), *plans(), *plan_files(), *expressions())
    every = dict.fromkeys((*reads, *resets(), *deletions()))
    return [Case(words) for words in every]


def scenario(name: str) -> Words:
    """Return the words of a scenario with a valid value."""
    return (f"--{name}", VALUES[name]) if name in VALUES else (f"--{name}",)


def reset(*words: str, group: str = EMPTY_GROUPS[0]) -> Words:
    """Return a reset of one group."""
    return (*AT, "--reset-offsets", "--group", group, *words)


def parsing() -> Iterator[Words]:
    """Yield command lines that are read in another way than most."""
    yield from ((), ("--",), ("-",), ("list",), ("--help",), ("--version",))
    yield from (("-h",), ("-help",), ("-version",), ("--Help",), ("--unknown",))
    yield from (("--help", "--version"), ("--version", "--unknown"), ("--help", "x"))
    yield from (("--version", "--members"), ("--help", "--timeout", "x"))
    yield from (("--version", "--describe", "--delete"), ("--version=1", "--group"))
    for option in _OURS:
        yield (*AT, f"--{option.name[:-1]}")
        yield (*AT, "--list", f"--{option.name}=")
        yield (*AT, "--list", f"--{option.name}=orders")
    for option in _WITH_ARGUMENT:
        yield (*AT, "--list", f"--{option.name}")
        value = VALUES.get(option.name, "2")
        twice = (f"--{option.name}", value, f"--{option.name}={value}")
        yield (*AT, "--list", *twice)
        yield (*AT, "--describe", "--all-groups", *twice)
        yield reset("--to-earliest", "--all-topics", "--dry-run", *twice)
        yield reset("--topic", "orders", "--dry-run", *twice)
    yield from ((*AT, "-list"), (*AT, "--list", "--"), (*AT, "--list", "more"))
    yield from ((*AT, "--list", "-"), (*AT, "--", "--list"), (*AT, "-l"))
    yield from ((*AT, "--list", "--list"), (*AT, "-list", "-state"))
    yield from ((*AT, "--list", "--state", "-"), (*AT, "--list", "--state", "--type"))
    yield from ((*AT, "--describe", "--group", "--list"), (*AT, "--describe=x"))
    yield (*AT, "--describe=", f"-group={EMPTY_GROUPS[0]}")
    yield (*AT, "--describe", "--group=", EMPTY_GROUPS[0])
    yield (f"-bootstrap-server={AT[1]}", "-describe", "-group", EMPTY_GROUPS[0])
    for name, value in product(("to-offset", "shift-by"), _NUMBERS):
        yield reset("--topic", "orders:0", "--dry-run", f"--{name}", value)
    for value in _NUMBERS:  # Two milliseconds may or may not be enough.
        short = value.replace("2", "60000").replace("٢", "٦٠٠٠٠")
        limit = value if len(value) > 3 else short
        scope = ("--topic", "orders:0", "--dry-run", "--to-latest")
        yield reset(*scope, "--timeout", limit)


def checks() -> Iterator[Words]:
    """Yield combinations of options that exclude or need each other."""
    group = ("--group", EMPTY_GROUPS[0])
    for each in ACTIONS:
        action = (
            ("--validate-regex", "a") if each == "validate-regex" else (f"--{each}",)
        )
        yield action
        yield (*action, *group)
        yield (*AT, *action)
        yield (*AT, *action, *group, "--all-groups")
        yield (*AT, *action, *group, "--all-topics")
        for stray in ("members", "offsets", "verbose", "state", "type"):
            if stray in {"state", "type"} or each != "describe":
                yield (*AT, *action, *group, f"--{stray}")
        if each in {"list", "describe", "validate-regex"}:
            yield (*AT, *action, *group, "--topic", "orders")
            yield (*AT, *action, "--topic", "orders")
            yield (*AT, *action, *group, "--execute", "--export", "--dry-run")
            yield (*AT, *action, *group, "--to-earliest")
    yield (*AT, "--delete", "--topic", "orders")
    yield (*AT, "--delete", *group, "--topic", "orders")
    yield (*AT, "--delete-offsets", "--topic", "orders")
    yield (*AT, "--delete-offsets", "--topic", "orders", "--all-groups")
    yield (*AT, "--delete-offsets", *group, *group, "--topic", "orders")
    yield (*AT, "--delete-offsets", *group, "--group", "x", "--topic", "orders")
    for one, two in combinations(ACTIONS, 2):
        both = (f"--{one}", f"--{two}", *(("a",) if two == "validate-regex" else ()))
        yield (*AT, *both)
        yield (*AT, *both, *group)
        yield (*AT, *both, *group, "--topic", "orders")
    for one, two in combinations(("members", "offsets", "state"), 2):
        yield (*AT, "--describe", *group, f"--{one}", f"--{two}")
    yield (*AT, "--describe", *group, "--members", "--offsets", "--state")
    yield (*AT, "--describe", *group, "--state", "Stable")
    yield (*AT, "--describe", *group, "--state=")
    for one, two in combinations(SCENARIOS, 2):
        yield reset(*scenario(one), *scenario(two), "--topic", "orders")
    yield reset("--to-earliest", "--to-latest", "--to-current", "--dry-run")
    yield reset("--dry-run", "--execute", "--to-earliest", "--topic", "orders")
    yield reset("--dry-run", "--execute")
    for modifier in ((), ("--dry-run",), ("--export",), ("--execute",)):
        yield reset(*modifier)
        yield reset("--to-earliest", *modifier)
        yield reset("--all-topics", *modifier)
        yield reset("--topic", "orders", *modifier)
        yield (*AT, "--reset-offsets", "--to-earliest", "--all-topics", *modifier)
        yield (*AT, "--reset-offsets", "--all-groups", "--to-earliest", *modifier)
        yield (*AT, "--reset-offsets", "--all-groups", "--all-topics", *modifier)


def lists() -> Iterator[Words]:
    """Yield `--list` with and without filters."""
    states = (
        *("Empty", "empty", "STABLE", "Empty,Stable", " empty , stable ", "Dead"),
        *("PreparingRebalance", "preparing-rebalance", "NotReady", "unknown", "x"),
        *("Empty,", ",Empty", ",", "Empty,x", "Assigning,Reconciling", ""),
    )
    types = (
        *("classic", "Consumer", "CLASSIC,consumer", "share", "streams", "unknown"),
        *("x", "classic,", ",classic", ",", " classic", "classic,share", ""),
    )
    yield (*AT, "--list")
    yield (*AT, "--list", "--state")
    yield (*AT, "--list", "--type")
    yield (*AT, "--list", "--type", "--state")
    yield (*AT, "--list", "--all-groups")
    yield (*AT, "--list", "--group", "x")
    for each in states:
        yield (*AT, "--list", "--state", each)
    for each in types:
        yield (*AT, "--list", "--type", each)
    yield (*AT, "--list", "--type", "consumer", "--state", "Empty")
    yield (*AT, "--list", "--type", "x", "--state", "x")
    yield (*AT, "--list", "--state", "Empty", "--state", "Stable")
    yield (*AT, "--list", "--type", "classic", "--type", "classic")


def descriptions() -> Iterator[Words]:
    """Yield `--describe` of every group with every table."""
    looks = ((), ("--offsets",), ("--members",), ("--state",))
    groups = (*EMPTY_GROUPS, *LIVE_GROUPS, *OTHER_TYPES, "missing", "", " ")
    for group, look, more in product(groups, looks, ((), ("--verbose",))):
        yield (*AT, "--describe", "--group", group, *look, *more)
    for look, more in product(looks, ((), ("--verbose",))):
        yield (*AT, "--describe", "--all-groups", *look, *more)
    for look in looks:
        yield (
            *AT,
            "--describe",
            "--group",
            LIVE_GROUPS[0],
            "--group",
            EMPTY_GROUPS[1],
            *look,
        )
        yield (
            *AT,
            "--describe",
            "--group",
            LIVE_GROUPS[0],
            "--group",
            "missing",
            *look,
        )
        twice = ("--group", EMPTY_GROUPS[0]) * 2
        yield (*AT, "--describe", *twice, *look)


def connections() -> Iterator[Words]:
    """Yield addresses and files of settings that are wrong."""
    quick = ("--timeout", "300")
    addresses = (
        *("", " ", "localhost", "localhost:", ":9092", "localhost:x", "localhost:-1"),
        *("localhost:99999", "a b:1", ",", "{dead},", ",{dead}", "{dead},localhost"),
        *("http://", "PLAINTEXT://{dead}", "[::1", "127.0.0.1:1:2", "{dead},{dead}"),
    )
    for address in addresses:
        yield ("--bootstrap-server", address, "--list", *quick)
    for address in ("localhost", "localhost:x", ""):
        at = ("--bootstrap-server", address)
        yield (*at, "--describe", "--group", "g")
        yield (*at, "--delete", "--group", "g")
        yield (*at, "--reset-offsets", "--group", "g", "--to-earliest", "--all-topics")
        yield (*at, "--delete-offsets", "--group", "g", "--topic", "orders")
    for name in (*CONFIGS, "missing.properties", "."):
        yield (
            *AT,
            "--list",
            "--command-config",
            "{files}/" + name,
            "--timeout",
            "3000",
        )
    for name in ("missing.properties", "wrong-value.properties"):
        config = ("--command-config", "{files}/" + name)
        yield (*AT, "--describe", "--group", "g", *config)
        yield reset("--to-earliest", "--all-topics", *config)
        yield (*AT, "--delete-offsets", "--group", "g", "--topic", "orders", *config)
        yield (*AT, "--delete", "--group", "g", *config)


def time_outs() -> Iterator[Words]:
    """Yield brokers that do not answer, and time-outs, too short and very long."""
    for at, limit in (
        (("--bootstrap-server", "{dead}"), "200"),
        (AT, "0"),
        (AT, "-1"),
        (AT, "-9223372036854775808"),
        (AT, "4294967296"),
        (AT, "2147483648"),
        (AT, "60000"),
        (AT, "4294997296"),
        (AT, "2147483647"),
    ):
        quick = (*at, "--timeout", limit)
        yield (*quick, "--list")
        yield (*quick, "--list", "--state")
        yield (*quick, "--describe", "--group", EMPTY_GROUPS[0])
        yield (*quick, "--describe", "--all-groups", "--members")
        yield (*quick, "--describe", "--group", EMPTY_GROUPS[0], "--state")
        yield (*quick, "--delete", "--group", "no-such")
        yield (*quick, "--delete", "--group", "no-such", "--group", "no-other")
        scope = ("--reset-offsets", "--group", EMPTY_GROUPS[0], "--to-earliest")
        yield (*quick, *scope, "--all-topics", "--dry-run")
        yield (*quick, *scope, "--topic", "orders", "--dry-run")
        yield (*quick, *scope, "--topic", "orders:0", "--dry-run", "--export")
        offsets = ("--delete-offsets", "--group", "no-such")
        yield (*quick, *offsets, "--topic", "orders")
        yield (*quick, *offsets, "--topic", "orders:0")
        yield (*quick, *offsets, "--topic", "orders:0", "--topic", "payments:1")


_TOPICS: Final = (
    *("orders", "orders:0", "orders:0,1", "orders:1,0", "payments", "empty", "trimmed"),
    *("payments:10,2", "missing", "missing:0", "orders:9", "orders:0,9", "orders:9,8"),
    *("orders:0,0", "orders:", ":0", "orders:x", "orders:-1", "orders:+1", "orders:1x"),
    *("orders:0:1", "orders:0,", "orders:,0", "orders:0,,1", "orders: 0", "", ":"),
    *("orders:2147483648", "orders::0", "a b", "x" * 250, "orders:00", "orders:٢"),
)
_TIMES: Final = (
    *("2020-01-01T00:00:00.000", "2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00"),
    *("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000+02:00", "2020-01-01"),
    *(
        "2020-01-01T00:00:00.000+0200",
        "2020-01-01T00:00:00.000+02",
        "2020-13-01T00:00:00.000",
    ),
    *(
        "2020-01-01T25:00:00.000",
        "2020-02-30T00:00:00.000",
        "2020-01-01T00:00",
        "x",
        "",
    ),
    *("2020-01-01 00:00:00.000", "T", "2999-01-01T00:00:00.000", "20-1-1T0:0:0.0"),
    *(
        "2020-01-01T00:00:00.5",
        "2020-01-01T00:00:00.000-05:30",
        "2020-01-01T00:00:00.000X",
    ),
    *("1577836800000", "2020-01-01T00:00:00.000000", "2020-01-01t00:00:00.000"),
    "1969-01-01T00:00:00.000",
)
_DURATIONS: Final = (
    *(
        "P1D",
        "PT1H",
        "PT0S",
        "P0D",
        "-P1D",
        "P-1D",
        "PT1.5S",
        "p1d",
        "P1W",
        "P1M",
        "P1Y",
    ),
    *(
        "1h",
        "",
        "P",
        "PT",
        "P1DT",
        "PT1H1M1S",
        "P1DT2H3M4.5S",
        "P100000D",
        "x",
        "PT1S1H",
    ),
    *("P99999999999999D", "PT-1H", "-PT-1H", "+P1D", "P+1D", " P1D"),
)


def plans() -> Iterator[Words]:
    """Yield resets that only show what they would do."""
    dry = ("--dry-run",)
    for each in _TOPICS:
        yield reset("--to-earliest", "--topic", each, *dry)
    for each in ("orders:0,0", "orders:9", "missing", "missing:0", "orders:x", ""):
        yield reset("--to-current", "--topic", each, *dry)
        yield reset("--to-offset", "2", "--topic", each, "--topic", "payments:1", *dry)
    for each in _TIMES:
        yield reset("--to-datetime", each, "--topic", "orders", *dry)
    for each in _DURATIONS:
        yield reset("--by-duration", each, "--topic", "orders", *dry)
    for each in ("0", "4", "99", "-1", "-99", "9223372036854775807"):
        yield reset(
            "--to-offset", each, "--topic", "orders", "--topic", "trimmed", *dry
        )
        yield reset("--shift-by", each, "--all-topics", *dry)
        yield reset("--shift-by", each, "--topic", "orders:0", *dry)
    yield reset("--shift-by", "1", "--topic", "empty", *dry)
    yield reset("--shift-by", "1", "--topic", "orders", "--topic", "empty", *dry)
    for group, name in product(
        (*EMPTY_GROUPS, *LIVE_GROUPS, *OTHER_TYPES, "missing", ""), SCENARIOS
    ):
        yield reset(*scenario(name), "--all-topics", *dry, group=group)
    for name in SCENARIOS:
        for scope in (
            ("--topic", "orders"),
            ("--topic", "payments"),
            ("--topic", "empty"),
        ):
            yield reset(*scenario(name), *scope)
            yield reset(*scenario(name), *scope, "--export", *dry)
        yield reset(*scenario(name), "--all-topics", "--topic", "orders", *dry)
        yield (
            *AT,
            "--reset-offsets",
            "--all-groups",
            *scenario(name),
            "--topic",
            "orders:0",
            *dry,
        )
        two = ("--group", EMPTY_GROUPS[0], "--group", EMPTY_GROUPS[1])
        yield (
            *AT,
            "--reset-offsets",
            *two,
            *scenario(name),
            "--topic",
            "orders:1",
            *dry,
        )
        yield (
            *AT,
            "--reset-offsets",
            *two,
            *scenario(name),
            "--all-topics",
            "--export",
            *dry,
        )
    some = [LIVE_GROUPS[0], EMPTY_GROUPS[1], "missing"]
    words = [word for each in some for word in ("--group", each)]
    yield (*AT, "--reset-offsets", *words, "--to-earliest", "--topic", "orders:1", *dry)
    yield (*AT, "--reset-offsets", "--all-groups", "--to-latest", "--all-topics", *dry)
    yield (
        *AT,
        "--reset-offsets",
        "--all-groups",
        "--to-latest",
        "--all-topics",
        "--export",
    )
    twice = ("--group", EMPTY_GROUPS[0]) * 2
    yield (*AT, "--reset-offsets", *twice, "--to-earliest", "--topic", "orders", *dry)
    yield (
        *AT,
        "--reset-offsets",
        *twice,
        "--to-earliest",
        "--topic",
        "orders",
        *dry,
        "--export",
    )
    yield reset("--to-earliest", "--topic", "orders", "--topic", "orders:0", *dry)
    yield reset("--to-earliest", "--topic", "orders:0", "--topic", "orders:0", *dry)
    yield reset("--to-earliest", "--topic", "orders", "--topic", "orders", *dry)


def plan_files() -> Iterator[Words]:
    """Yield resets to the offsets of a file."""
    for name in (*PLANS, "missing.csv", "."):
        quick = ("--timeout", "5000") if name == "missing-partition.csv" else ()
        file = ("--from-file", "{files}/" + name, *quick)
        yield reset(*file, "--dry-run")
        yield (*AT, "--reset-offsets", "--all-groups", *file, "--dry-run")
        two = ("--group", EMPTY_GROUPS[0], "--group", EMPTY_GROUPS[1])
        yield (*AT, "--reset-offsets", *two, *file, "--dry-run")
    yield reset("--from-file", "{files}/plan.csv", "--topic", "orders:0", "--dry-run")
    yield reset("--from-file", "{files}/plan.csv", "--export")
    yield reset("--from-file", "{files}/plan.csv", "--dry-run", group="missing")
    yield reset("--from-file", "{files}/plan.csv", "--dry-run", group=LIVE_GROUPS[0])


def expressions() -> Iterator[Words]:
    """Yield `--validate-regex`."""
    for each in ("a.*", "", "(", ")", "a)b", "[", "a{2,1}", "*", "(?=a)", "\\", "a**"):
        yield ("--validate-regex", each)
    for each in (
        "(?P<n>a)",
        "\\1",
        "[z-a]",
        "a{1001}",
        "(?i)x",
        "\\p{Greek}",
        "é",
        "\\q",
    ):
        yield ("--validate-regex", each)
    yield ("--validate-regex", "a", "--bootstrap-server", "{dead}")
    yield ("--validate-regex=a", "--group", "x")
    yield ("--validate-regex", "a", "--validate-regex", "b")


def resets() -> Iterator[Words]:
    """Yield resets that write."""
    for name in SCENARIOS:
        yield reset(*scenario(name), "--topic", "orders", "--execute", group=SPARE[0])
        yield reset(*scenario(name), "--all-topics", "--execute", group=SPARE[0])
        yield reset(*scenario(name), "--topic", "orders", group=SPARE[0])
        two = ("--group", SPARE[0], "--group", SPARE[1], "--execute", "--export")
        yield (*AT, "--reset-offsets", *two, *scenario(name), "--topic", "orders:1")
    for topics in (
        ("missing",),
        ("orders:9",),
        ("orders:0", "missing:1"),
        ("orders:0,0",),
    ):
        words = [word for each in topics for word in ("--topic", each)]
        yield reset("--to-latest", *words, "--execute", group=SPARE[0])
    for group in (LIVE_GROUPS[0], LIVE_GROUPS[1], *OTHER_TYPES, ""):
        yield reset("--to-latest", "--topic", "orders", "--execute", group=group)
    for topic in ("missing", "orders:9", "missing:1", "orders:0"):
        for more in (("--execute",), ("--dry-run",)):
            two = ("--group", SPARE[1], "--group", SPARE[0], "--topic", topic)
            yield (*AT, "--reset-offsets", *two, "--to-latest", *more)
            other = ("--group", OTHER_TYPES[0])
            yield (*AT, "--reset-offsets", *other, *two, "--to-latest", *more)
    every = ("--reset-offsets", "--all-groups", "--execute")
    yield (*AT, *every, "--to-latest", "--topic", "orders:1")
    yield (*AT, *every, "--to-earliest", "--all-topics", "--export")
    three = ("--group", SPARE[0], "--group", LIVE_GROUPS[0], "--group", "new")
    yield (
        *AT,
        "--reset-offsets",
        *three,
        "--to-latest",
        "--topic",
        "orders",
        "--execute",
    )
    yield reset("--shift-by", "1", "--topic", "empty", "--execute", group=SPARE[0])
    yield reset(
        "--to-latest",
        "--topic",
        "orders",
        "--execute",
        "--timeout",
        "0",
        group=SPARE[0],
    )
    for name in ("no-file.csv", "empty.csv", "twice.csv", "beyond.csv"):
        yield reset("--from-file", "{files}/" + name, "--execute", group=SPARE[0])


def deletions() -> Iterator[Words]:
    """Yield `--delete` and `--delete-offsets`."""
    groups = (
        *(
            (SPARE[0],),
            SPARE,
            ("missing",),
            (SPARE[0], "missing"),
            (SPARE[0], SPARE[0]),
        ),
        *((each,) for each in (*LIVE_GROUPS, *OTHER_TYPES, "", " ")),
        (*SPARE, LIVE_GROUPS[0], LIVE_GROUPS[1], "missing"),
    )
    for some in groups:
        words = [word for each in some for word in ("--group", each)]
        for more in ((), ("--dry-run",), ("--execute",)):
            yield (*AT, "--delete", *words, *more)
    for more in ((), ("--dry-run",), ("--all-topics",)):
        yield (*AT, "--delete", "--all-groups", *more)
    for topic in _TOPICS:
        yield (*AT, "--delete-offsets", "--group", SPARE[0], "--topic", topic)
    for group in ("missing", "", *LIVE_GROUPS, *OTHER_TYPES):
        for topics in (("orders",), ("orders:0", "missing"), ("missing",), ("live",)):
            words = [word for each in topics for word in ("--topic", each)]
            yield (*AT, "--delete-offsets", "--group", group, *words)
    offsets = (*AT, "--delete-offsets", "--group", SPARE[0])
    yield (*offsets, "--topic", "orders", "--topic", "payments")
    yield (*offsets, "--topic", "orders", "--topic", "orders:0")
    yield (*offsets, "--topic", "missing", "--topic", "absent", "--topic", "gone")
    yield (*offsets, "--topic", "orders", "--topic", "missing")
    yield (*offsets, "--topic", "orders:0", "--topic", "orders:x")
    for option in ("dry-run", "execute", "export", "all-topics", "to-latest"):
        yield (*offsets, "--topic", "orders", f"--{option}")
