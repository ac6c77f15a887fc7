"""Changes of topics: show, let the brokers validate, confirm, write.

A command supplies a `TopicChange`. Without --execute its rows are shown, after the
brokers validated the change where Kafka can (`validate_only`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from coterie.cli.command import EXECUTE_HINT, Run
from coterie.cli.output import outcome as out
from coterie.cli.output.emit import check_columns, confirm, is_interactive
from coterie.errors import CoterieError
from coterie.types import TopicName

TopicErrors: TypeAlias = "Mapping[TopicName, CoterieError]"
TOPICS_PER_REQUEST: Final = 500


class TopicChange(NamedTuple):
    """A change of some topics, with one row or several for each."""

    columns: Sequence[out.Column]
    rows: Sequence[tuple[TopicName, out.Item]]
    """The topic of each row, and the row without result and error."""
    done: str
    """The result of a written row, as in "deleted"."""
    question: str
    send: Callable[[Collection[TopicName], bool], Awaitable[TopicErrors]]
    """A function that writes the change of some topics, or only lets the brokers
    validate it."""
    failures: Sequence[out.Failure] = ()
    refused: TopicErrors | None = None
    """Topics that are not written."""
    has_validation: bool = True
    notes: Sequence[str] = ()


async def show_or_write(run: Run, change: TopicChange) -> out.Outcome:
    """Show the change, or write it with --execute or --yes."""
    options = run.options
    refused = change.refused or {}
    names = list(dict.fromkeys(name for name, _ in change.rows if name not in refused))
    if not names:
        return _outcome(run, change, "planned", refused, "there is nothing to do")
    check_columns(_outcome(run, change, "planned", refused), options)
    is_written = options.execute or options.yes
    is_asked = is_written and not options.yes and is_interactive(run.io)
    if not is_written or is_asked:
        errors = dict(refused)
        if change.has_validation:
            errors |= await _send(run, change, names, validate_only=True)
        if not is_written:
            return _outcome(run, change, "planned", errors, EXECUTE_HINT)
        preview = _outcome(run, change, "planned", errors)
        run.progress.clear()
        if not confirm(run.io, preview, options, change.question):
            return _outcome(run, change, "planned", errors, "nothing was written")
    errors = {**refused, **await _send(run, change, names, validate_only=False)}
    return _outcome(run, change, change.done, errors)


async def _send(
    run: Run, change: TopicChange, names: Sequence[TopicName], *, validate_only: bool
) -> dict[TopicName, CoterieError]:
    errors: dict[TopicName, CoterieError] = {}
    done = 0
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        chunk = names[start : start + TOPICS_PER_REQUEST]
        errors |= await change.send(chunk, validate_only)
        done += len(chunk)
        run.progress(done, len(names))
    return errors


def _outcome(
    run: Run, change: TopicChange, result: str, errors: TopicErrors, *notes: str
) -> out.Outcome:
    return out.Outcome(
        schema=f"coterie.{run.options.command.replace(' ', '.')}",
        columns=(
            *change.columns,
            out.Column("result", "RESULT"),
            out.Column("error", "ERROR", is_wide=not errors, show=out.show_error),
        ),
        items=tuple(
            {
                **item,
                "result": "failed" if name in errors else result,
                "error": out.error_item(errors.get(name)),
            }
            for name, item in change.rows
        ),
        failures=tuple(change.failures),
        summary={
            "executed": result != "planned",
            "topics": len({name for name, _ in change.rows}),
        },
        notes=(*change.notes, *_explanations(errors), *notes),
    )


def _explanations(errors: TopicErrors) -> list[str]:
    """Return the sentences of the errors, which a table has only as codes."""
    return [f"error: {error}" for _, error in sorted(errors.items())]
