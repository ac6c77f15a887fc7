"""The application of `spark-submit` and of a Databricks job: `coterie pipeline run`.

spark-submit takes only files that end in .py, so the command `coterie` does not do.
"""

from __future__ import annotations

import sys

from coterie.cli.main import main

if __name__ == "__main__":
    # The exit code is the code of the job.
    raise SystemExit(main(["pipeline", "run", *sys.argv[1:]]))
