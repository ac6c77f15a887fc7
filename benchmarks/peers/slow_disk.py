"""`coterie` on a disk whose every sync takes longer, by a delay in `fdatasync`.

The arguments are the delay in ms and those of `coterie`. Journals are synced by this
function; SQLite syncs in C.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from coterie import portable_os
from coterie.cli.main import main

sync = portable_os.fdatasync


def delay_syncs(delay_s: float) -> None:
    """Make every later sync of this process take longer."""
    assert delay_s >= 0

    def slow_sync(fd: Any) -> None:
        time.sleep(delay_s)
        sync(fd)

    portable_os.fdatasync = slow_sync


if __name__ == "__main__":
    delay_syncs(float(sys.argv[1]) / 1000)
    raise SystemExit(main(sys.argv[2:]))
