"""Runs of the operators' scripts in examples/, against any broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coterie.client import (
    AdminClient,
    CommittedOffset,
    NewRecord,
    NewTopic,
    Producer,
    TopicPartition,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = ("alert_time_lag.py", "clean_up_groups.py", "move_group.py")
OLD_MS = 1_600_000_000_000
RUN_S = 120.0


def run(name: str, *words: str, cwd: Path, code: int = 0) -> str:
    """Run a script and check its exit code; return its output."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


async def make_group(
    admin: AdminClient, topic: str, group: str, offset: int, records: int = 3
) -> TopicPartition:
    """Create a topic with old records, one second apart, and a group's commit."""
    at = TopicPartition(topic, 0)
    (await admin.topics.create([NewTopic(topic, 1, 1)])).all()
    (await admin.topics.describe([topic])).all()  # wait until the broker knows it
    await add_records(admin, topic, range(records))
    (await admin.group_offsets.alter(group, {at: CommittedOffset(offset)})).all()
    return at


async def add_records(admin: AdminClient, topic: str, numbers: range) -> None:
    """Append records whose timestamps tell their numbers."""
    await Producer(admin.cluster).produce(
        topic,
        [
            NewRecord(b"%d" % each, timestamp_ms=OLD_MS + 1000 * each)
            for each in numbers
        ],
    )


async def check_alert(bootstrap: str, name: str, directory: Path) -> None:
    """Check that a group with an unread record of 2020 is reported."""
    async with AdminClient(bootstrap) as admin:
        await make_group(admin, f"{name}-late", f"{name}-late", 1)
        await make_group(admin, f"{name}-done", f"{name}-done", 3)
    output = run("alert_time_lag.py", bootstrap, "300", cwd=directory, code=3)
    assert f"{name}-late: " in output
    assert "behind, 2 records" in output
    assert f"{name}-done: " not in output


async def check_move(source: str, bootstrap: str, name: str, directory: Path) -> None:
    """Check a move to a copy that lacks two records, so its offsets are smaller."""
    async with AdminClient(source) as admin:
        at = await make_group(admin, name, name, 3, records=5)
    async with AdminClient(bootstrap) as admin:
        (await admin.topics.create([NewTopic(name, 1, 1)])).all()
        (await admin.topics.describe([name])).all()
        await add_records(admin, name, range(2, 5))
        output = run("move_group.py", source, bootstrap, name, cwd=directory)
        assert output == f"{name}-0: 3 -> 1\n{name}: done\n"
        offsets = (await admin.group_offsets.fetch(name)).all()
    moved = offsets[at]
    assert moved is not None
    assert moved.offset == 1


async def check_clean_up(bootstrap: str, name: str, directory: Path) -> None:
    """Check that a group without its unread records is deleted and restored."""
    script = "clean_up_groups.py"
    async with AdminClient(bootstrap) as admin:
        await make_group(admin, f"{name}-kept", f"{name}-kept", 1)
        at = await make_group(admin, f"{name}-gone", f"{name}-gone", 1)
        (await admin.logs.delete_records({at: 2})).all()
        planned = run(script, bootstrap, "plan", f"{name}-*", cwd=directory)
        assert planned == f"cleanup.json: delete {name}-gone\n"
        applied = run(script, bootstrap, "apply", cwd=directory)
        assert f"{name}-gone: done" in applied
        left = {each.group_id for each in (await admin.groups.list()).all()}
        assert f"{name}-kept" in left
        assert f"{name}-gone" not in left
        snapshot = applied.split()[-1]
        restored = run(script, bootstrap, "undo", snapshot, cwd=directory)
        assert f"{name}-gone: done" in restored
        offsets = await admin.group_offsets.fetch(f"{name}-gone")
    assert offsets.all()[at] == CommittedOffset(1)
