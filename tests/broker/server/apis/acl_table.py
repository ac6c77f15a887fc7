"""The complete table of required operations."""

from __future__ import annotations

from typing import Final

from tests.broker.server.apis import (
    acl_rows_admin,
    acl_rows_cluster,
    acl_rows_groups,
    acl_rows_offsets,
    acl_rows_topics,
)
from tests.broker.server.apis.acl_rows import Row

ROWS: Final[list[Row]] = [
    *acl_rows_groups.ROWS,
    *acl_rows_offsets.ROWS,
    *acl_rows_topics.ROWS,
    *acl_rows_cluster.ROWS,
    *acl_rows_admin.ROWS,
]
COMMON_ROWS: Final = [row for row in ROWS if not row.settings]
"""Those of requests that Kafka has, too: what only we have is off by default."""
