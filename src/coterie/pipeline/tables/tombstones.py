"""Silver: records without a value."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.common import AT, GROUP_ID
from coterie.pipeline.tables.table import (
    INT,
    SHORT,
    STRING,
    Column,
    Layer,
    Table,
    never_null,
)

TOMBSTONES: Final = Table(
    "tombstones",
    Layer.SILVER,
    "What was deleted, and when?",
    key=("log_partition", "log_offset"),
    columns=(
        *AT,
        never_null("record_type", SHORT, "of the key: 0 to 8 or 16 (E22.2)"),
        GROUP_ID,
        Column("topic", STRING, "0, 1: the topic of the offset"),
        Column("partition", INT, "0, 1: its partition"),
        Column("member_id", STRING, "5, 7, 8: the member"),
        Column("regex", STRING, "16: the regular expression"),
    ),
)
