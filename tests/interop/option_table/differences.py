"""Turn the output of Apache's tool into what Coterie prints, by declared differences.

Each difference has an id: a row of docs/kafka-consumer-groups.tsv with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.cli.kafka_consumer_groups.options import usage
from tests.interop.kafka import CommandOutput

State: TypeAlias = Mapping[str, object]
"""What commands may change: groups and committed offsets."""

_FAILED: Final = "Executing consumer group command failed due to "
_TRACE: Final = re.compile(
    # The exception, its message, which may have more lines, and its frames.
    r"^(?P<thread>Exception in thread \"main\" )?"
    r"(?P<name>(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error))(?:: (?P<text>.*))?\n"
    r"(?: at \[Source.*\n| *\(.*\n)*"
    r"(?:(?:\tat |\t\.\.\. |Caused by: |\tSuppressed: ).*\n(?: at \[Source.*\n)?)*",
    re.M,
)
_CLIENT_LOG: Final = re.compile(
    r"^\[[^\]\n]+\] (?:WARN|ERROR|INFO) org\.apache\.kafka\.(?:clients|common)\..*\n",
    re.M,
)
_TOOL_LOG: Final = re.compile(
    r"^\[[^\]\n]+\] WARN org\.apache\.kafka\.tools\.\S+ - ", re.M
)
_IS_ERROR: Final = re.compile(
    r"^Error: |^The regular expression .* is invalid: .*\.\n\Z| Error: org\.", re.M
)
_TIME_OUT: Final = re.compile(r"(?<=errors\.TimeoutException: ).*")
_WRONG_SETTING: Final = re.compile(
    rf"(?<={_FAILED})(?:Invalid value .* for configuration .*|Malformed .*)"
)
_NO_CLIENT: Final = "Failed to create new KafkaAdminClient"
_UNKNOWN_TOPIC: Final = (
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
)
_REFUSED_LINES: Final = (
    *("short", "no-offset", "not-a-number", "twice", "beyond", "header", "long"),
    "text",
)


class Run(NamedTuple):
    """A command line with the output of both tools."""

    words: tuple[str, ...]
    theirs: CommandOutput
    ours: CommandOutput
    usage: str
    """The usage of Apache's tool."""
    before: State | None = None
    """The groups before a command that writes."""
    their_state: State | None = None
    our_state: State | None = None

    def expecting(self, **changes: Any) -> Run:
        """Return the run with another output of Apache's tool."""
        return self._replace(theirs=self.theirs._replace(**changes))

    def values(self, option: str) -> list[str]:
        """Return the arguments of an option that are words of their own."""
        pairs = zip(self.words, self.words[1:], strict=False)
        return [value for name, value in pairs if name == option]


def _parse_errors(run: Run) -> Run:
    match = _TRACE.search(run.theirs.stderr)
    if match is None or not match["thread"]:
        return run
    assert match["name"].startswith("joptsimple."), run
    before, after = run.theirs.stderr[: match.start()], run.theirs.stderr[match.end() :]
    return run.expecting(stderr=f"{before}{match['text']}\n{run.usage}{after}")


def _stack_traces(run: Run) -> Run:
    return run.expecting(stderr=_TRACE.sub("", run.theirs.stderr))


def _early_checks(run: Run) -> Run:
    out, err = run.theirs.stdout, run.theirs.stderr
    is_early = err.endswith(run.usage) and (
        "reset scopes should be defined" in err or "following scenarios" in err
    )
    if is_early:
        return run.expecting(stdout="")
    before, failed, after = out.partition(f"\nError: {_FAILED}")
    if run.values("--from-file") and failed and "Assignments can only" in before:
        return run.expecting(stdout=failed + after)
    return run


def _usage(run: Run) -> Run:
    text = run.theirs.stderr
    if text.startswith("This tool helps to list all consumer groups"):
        if run.words:
            return run.expecting(stdout=usage(), stderr="", exit_code=0)
        return run.expecting(stderr=usage())
    return run.expecting(stderr=text.replace(run.usage, f"\n{usage()}"))


def _logs(run: Run) -> Run:
    text = _CLIENT_LOG.sub("", run.theirs.stderr)
    return run.expecting(stderr=_TOOL_LOG.sub("WARN: ", text))


def _version(run: Run) -> Run:
    if re.fullmatch(r"\d+\.\d+\.\d+\n", run.theirs.stdout):
        return run.expecting(stdout=f"{version('coterie')}\n")
    return run


def _exit_codes(run: Run) -> Run:
    if _IS_ERROR.search(run.theirs.stdout):
        return run.expecting(exit_code=1)
    return run


def _time_outs(run: Run) -> Run:
    return run._replace(
        theirs=run.theirs._replace(stdout=_TIME_OUT.sub("", run.theirs.stdout)),
        ours=run.ours._replace(stdout=_TIME_OUT.sub("", run.ours.stdout)),
    )


def _settings(run: Run) -> Run:
    out, err = run.theirs.stdout, run.theirs.stderr
    if err.startswith("Malformed \\u"):
        run = run.expecting(stdout=f"\nError: {_FAILED}{_NO_CLIENT}\n", stderr="")
    else:
        run = run.expecting(stdout=_WRONG_SETTING.sub(_NO_CLIENT, out))
    return _with_reason(run) if _NO_CLIENT in run.theirs.stdout else run


def _reasons(run: Run) -> Run:
    is_unreachable = "Failed to find brokers" in run.theirs.stdout
    return _with_reason(run) if is_unreachable else run


def _with_reason(run: Run) -> Run:
    """Expect one more line on stderr."""
    reason = run.ours.stderr.removeprefix(run.theirs.stderr)
    is_reason = re.fullmatch(r"[^\n]+\n", reason) is not None
    return run.expecting(stderr=run.ours.stderr) if is_reason else run


def _no_host(run: Run) -> Run:
    if any(each.startswith(":") for each in run.values("--bootstrap-server")):
        text = f"\nError: {_FAILED}{_NO_CLIENT}\n"
        return run.expecting(stdout=text, stderr=run.ours.stderr)
    return run


def _long_shifts(run: Run) -> Run:
    if run.values("--shift-by") != ["9223372036854775807"]:
        return run
    wrapped = re.search(r"New offset \(-\d+\) is lower", run.theirs.stderr)
    if not wrapped or "is higher than latest" not in run.ours.stderr:
        return run
    return run._replace(theirs=run.ours)


def _unknown_topics(run: Run) -> Run:
    text = re.escape(f"{_FAILED}java.util.concurrent.ExecutionException: ")
    known = "This server does not host this topic-partition"
    reasons = rf"(?:{known}\.|Failed to fetch metadata for partition missing-0.*)"
    pattern = rf"{text}{re.escape(_UNKNOWN_TOPIC)}{reasons}"
    if not re.search(pattern, run.theirs.stdout):
        return run
    named = [each for each in run.values("--topic") if each.startswith("missing:")]
    names = ",".join(each.replace(":", "-") for each in named) or "missing-0"
    said = f'{_FAILED}The partitions "{names}" do not exist'
    return run.expecting(stdout=re.sub(pattern, said, run.theirs.stdout))


def _unknown_partitions(run: Run) -> Run:
    if not any("missing-partition" in each for each in run.values("--from-file")):
        return run
    out = re.sub(
        rf"{_FAILED}java.util.concurrent.ExecutionException: .*TimeoutException: .*",
        f'{_FAILED}The partitions "orders-9" do not exist',
        run.theirs.stdout,
    )
    return run.expecting(stdout=out)


def _partition_order(run: Run) -> Run:
    def ordered(match: re.Match[str]) -> str:
        return ",".join(sorted(match[0].split(",")))

    pattern = r'(?<=The partitions ")[^"]+(?=" do not)'
    return run.expecting(stdout=re.sub(pattern, ordered, run.theirs.stdout))


def _duplicates(run: Run) -> Run:
    out = re.sub(r"(Duplicate key \S+) \(attempted .*\)", r"\1", run.theirs.stdout)
    return run.expecting(stdout=out)


def _partitions(run: Run) -> Run:
    for each in run.values("--topic"):
        if each.startswith(":") and len(each) > 1:
            text = f"Invalid topic arg '{each}', expected topic name and partitions"
        elif re.search(r":-\d", each):
            number = each.partition(":")[2]
            text = f"Invalid partition '{number}' specified in topic arg '{each}''"
        else:
            continue
        text += f"\n\n{usage()}"
        return run.expecting(stdout="", stderr=text, exit_code=1)
    return run


def _empty_topics(run: Run) -> Run:
    theirs = "The given topic name '' cannot be represented in a request."
    ours = "The request attempted to perform an operation on an invalid topic."
    return run.expecting(stdout=run.theirs.stdout.replace(theirs, ours))


def _times(run: Run) -> Run:
    for each in run.values("--to-datetime"):
        milliseconds = re.search(r"\.(\d{1,2}|\d{4,})(?!\d)", each)
        if milliseconds or re.search(r"\+\d{4}$", each):
            zoned = each if re.search(r"T.*[-+Z]", each) else f"{each}Z"
            text = f'java.text.ParseException: Unparseable date: "{zoned}"'
            out = f"\nError: {_FAILED}{text}\n"
            return run.expecting(stdout=out, exit_code=1)
    return run


def _lines(run: Run) -> Run:
    """Expect Coterie's message about a line that it refuses, whatever Apache's says."""
    names = [re.sub(r".*/|\.csv", "", each) for each in run.values("--from-file")]
    if not set(names) & set(_REFUSED_LINES):
        return run
    pattern = rf"\nError: {_FAILED}line \d: .*\n"
    if not re.fullmatch(pattern, run.ours.stdout):
        return run
    text = run.ours.stdout
    warnings = "".join(re.findall(r"^WARN: No action.*\n", run.theirs.stderr, re.M))
    changed = run.expecting(stdout=text, stderr=warnings, exit_code=1)
    return changed._replace(their_state=run.before)


def _dry_deletions(run: Run) -> Run:
    if not {"--delete", "--dry-run"} <= {*run.words}:
        return run
    out = run.theirs.stdout
    deleted = re.search(r"consumer groups \((.*)\) was|successfully: (.*)\n", out)
    groups = (deleted[1] or deleted[2]) if deleted else "-"
    errors = "".join(re.findall(r"^\* Group .*\n", out, re.M))
    errors = errors.replace("could not", "would not")
    # DescribeGroups refuses an empty id, which DeleteGroups does not find.
    errors = re.sub(
        r"(Group '' .*errors\.).*",
        r"\1InvalidGroupIdException: The group id is invalid.",
        errors,
    )
    text = f"Dry run: these consumer groups would be deleted: {groups}\n{errors}"
    changed = run.expecting(stdout=text, exit_code=1 if errors else 0)
    return changed._replace(their_state=run.before)


def _dry_offset_deletions(run: Run) -> Run:
    if not {"--delete-offsets", "--dry-run"} <= {*run.words}:
        return run
    out = re.sub(
        r"\ARequest succeeded .*", "Dry run: nothing is deleted.", run.theirs.stdout
    )
    return run.expecting(stdout=out)._replace(their_state=run.before)


def _unknown_in_deletions(run: Run) -> Run:
    head, newline, rows = run.theirs.stdout.partition("\n")
    if not head.startswith("Request succeeded") or "  Error: " not in rows:
        return run
    what = "Encountered some partition-level error, see the follow-up details."
    if _UNKNOWN_TOPIC not in rows:
        what = "Encountered some unknown error: INVALID_TOPIC_EXCEPTION"
    return run.expecting(stdout=f"\nError: {what}{newline}{rows}", exit_code=1)


RULES: Final[dict[str, Callable[[Run], Run]]] = {
    "parse-errors": _parse_errors,
    "logs": _logs,
    "stack-traces": _stack_traces,
    "early-checks": _early_checks,
    "usage": _usage,
    "version": _version,
    "long-shifts": _long_shifts,
    "unknown-topics": _unknown_topics,
    "unknown-partitions": _unknown_partitions,
    "partition-order": _partition_order,
    "duplicates": _duplicates,
    "partitions": _partitions,
    "empty-topics": _empty_topics,
    "times": _times,
    "lines": _lines,
    "dry-deletions": _dry_deletions,
    "dry-offset-deletions": _dry_offset_deletions,
    "unknown-in-deletions": _unknown_in_deletions,
    "settings": _settings,
    "no-host": _no_host,
    "reasons": _reasons,
    "exit-codes": _exit_codes,
    "time-outs": _time_outs,
}
"""The differences in the order in which they apply."""

_CHOICES: Final = re.compile(
    r"(?:(?<=options: )|(?<=es are: ))[^\n]+"
    r"|(?<=following scenarios: \[)[^\n]+(?=\]\n)"
)


def normalised(output: CommandOutput) -> CommandOutput:
    """Put into order what Java prints in the order of a Set.of, which is random."""

    def text(each: str) -> str:
        return _CHOICES.sub(lambda m: ", ".join(sorted(m[0].split(", "))), each)

    return CommandOutput(text(output.stdout), text(output.stderr), output.exit_code)


def compared(run: Run) -> tuple[Run, set[str]]:
    """Return the run with the outputs that must be the same, and the ids of the
    differences."""
    used = set()
    for name, rule in RULES.items():
        changed = rule(run)
        if changed != run:
            used.add(name)
        run = changed
    return run._replace(theirs=normalised(run.theirs), ours=normalised(run.ours)), used
