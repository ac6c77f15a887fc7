"""A member in a process of its own, which a test kills: it never leaves its group.

    member_process.py BOOTSTRAP GROUP CLIENT_ID TOPIC PARTITIONS CONFIG

It commits offset 1 of its partitions, prints them and the times, and consumes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.pipeline.truth.journal import (
    CRASHED,
    Commit,
    Journal,
    PartitionKey,
    Session,
    Span,
    now,
)
from tests.pipeline.truth.members import ConfluentMember
from tests.support.waiting import eventually

FIRST_OFFSET = 1


class ProcessMember:
    """A member that consumes in a process until it is killed.

    Its partitions may not change from its first assignment until then.
    """

    def __init__(
        self,
        journal: Journal,
        bootstrap: str,
        group: str,
        client_id: str,
        topic: str,
        partitions: int,
        **config: Any,
    ) -> None:
        self.group, self.client_id = group, client_id
        self.owned: frozenset[PartitionKey] = frozenset()
        self._journal = journal
        self._began_s = now()
        self._assigned_s = 0.0
        self._partitions = partitions
        words = [bootstrap, group, client_id, topic, str(partitions)]
        with tempfile.NamedTemporaryFile(delete=False) as output:
            self._output = Path(output.name)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *words, json.dumps(config)],
                stdout=output,
            )

    def wait_for_commit(self) -> None:
        """Wait until it owns its partitions and has committed."""

        def line() -> str:
            assert self._process.poll() is None, "the member process ended"
            text = self._output.read_text()
            return text if text.endswith("\n") else ""

        found = json.loads(eventually(line, expected="a commit of a process"))
        self._assigned_s = found["assigned_s"]
        self.owned = frozenset((topic, number) for topic, number in found["owned"])
        assert len(self.owned) == self._partitions
        self._journal.assigned(self.group, self.client_id, self.owned, self._assigned_s)
        span = Span(found["from_s"], found["until_s"])
        self._journal.committed(
            Commit(self.group, *key, FIRST_OFFSET, span, self.client_id)
            for key in sorted(self.owned)
        )

    def kill(self) -> None:
        """Kill the process; its group evicts the member after the session timeout."""
        from_s = now()
        self._process.kill()
        self._process.wait(60)
        self._output.unlink()
        self._journal.revoked(self.group, self.client_id, self.owned, from_s)
        self.owned = frozenset()
        began = Span(self._began_s, self._assigned_s)
        ended = Span(from_s, float("inf"))
        self._journal.session(
            Session(self.group, self.client_id, None, began, ended, CRASHED)
        )


def main(words: list[str]) -> None:
    bootstrap, group, client_id, topic, partitions, config = words
    journal = Journal()
    member = ConfluentMember(
        journal, bootstrap, group, client_id, [topic], **json.loads(config)
    )
    eventually(lambda: len(member.owned) == int(partitions), expected="partitions")
    member.commit(FIRST_OFFSET)
    found = {
        "assigned_s": min(each.from_s for each in journal.all_ownerships()),
        "owned": sorted(member.owned),
        "from_s": journal.commits[0].span.from_s,
        "until_s": journal.commits[0].span.until_s,
    }
    print(json.dumps(found), flush=True)  # noqa: T201 - the parent reads it
    member.join()


if __name__ == "__main__":
    main(sys.argv[1:])
