"""Changes of topics, ACLs, quotas and others: show, validate, confirm, write.

A command supplies a `Change`. Without --execute its rows are shown, after the brokers
validated the change where Kafka can. Changes of groups have a plan and a snapshot too:
see `groups.write`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from coterie.cli.command import EXECUTE_HINT, Run
from coterie.cli.output import emit
from coterie.cli.output import outcome as out
from coterie.errors import CoterieError

K = TypeVar("K")

Send: TypeAlias = Callable[[Sequence[K]], Awaitable[Mapping[K, CoterieError]]]
"""A function that sends the change of some things, and returns the errors of those that
failed."""
KEYS_PER_REQUEST: Final = 500


class Change(NamedTuple, Generic[K]):
    """A change of some things, with one row or several for each."""

    unit: str
    """The things, as in "topics"."""
    columns: Sequence[out.Column]
    rows: Sequence[tuple[K, out.Item]]
    """The thing of each row, and the row without result and error."""
    done: str
    """The result of a written row, as in "deleted"."""
    question: str
    send: Send[K]
    validate: Send[K] | None = None
    """A function that only lets the brokers validate the change, if they can."""
    failures: Sequence[out.Failure] = ()
    refused: Mapping[K, CoterieError] | None = None
    """Things that are not written."""
    notes: Sequence[str] = ()


async def show_or_write(run: Run, change: Change[K]) -> out.Outcome:
    """Show the change, or write it with --execute or --yes."""
    options = run.options
    refused = change.refused or {}
    keys = list(dict.fromkeys(key for key, _ in change.rows if key not in refused))
    if not keys:
        return _outcome(run, change, "planned", refused, "there is nothing to do")
    emit.check_columns(_outcome(run, change, "planned", refused), options)
    is_written = options.execute or options.yes
    is_asked = is_written and not options.yes and emit.is_interactive(run.io)
    if not is_written or is_asked:
        errors = dict(refused)
        if change.validate is not None:
            errors |= await _send(run, change.validate, keys)
        if not is_written:
            return _outcome(run, change, "planned", errors, EXECUTE_HINT)
        preview = _outcome(run, change, "planned", errors)
        run.progress.clear()
        if not emit.confirm(run.io, preview, options, change.question):
            return _outcome(run, change, "planned", errors, "nothing was written")
    errors = {**refused, **await _send(run, change.send, keys)}
    return _outcome(run, change, change.done, errors)


async def _send(run: Run, send: Send[K], keys: Sequence[K]) -> dict[K, CoterieError]:
    errors: dict[K, CoterieError] = {}
    for start in range(0, len(keys), KEYS_PER_REQUEST):
        chunk = keys[start : start + KEYS_PER_REQUEST]
        try:
            errors |= await send(chunk)
        except CoterieError as error:
            if len(keys) <= KEYS_PER_REQUEST:
                raise
            # Others were written: each has its row.
            errors |= dict.fromkeys(chunk, error)
        run.progress(min(start + KEYS_PER_REQUEST, len(keys)), len(keys))
    return errors


def _outcome(
    run: Run,
    change: Change[K],
    result: str,
    errors: Mapping[K, CoterieError],
    *notes: str,
) -> out.Outcome:
    # A table has only the codes of errors.
    sentences = dict.fromkeys(f"error: {errors[key]}" for key in errors)
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
                "result": "failed" if key in errors else result,
                "error": out.error_item(errors.get(key)),
            }
            for key, item in change.rows
        ),
        failures=tuple(change.failures),
        summary={
            "executed": result != "planned",
            change.unit: len({key for key, _ in change.rows}),
        },
        notes=(*change.notes, *sorted(sentences), *notes),
    )
