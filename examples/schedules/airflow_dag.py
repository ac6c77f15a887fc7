"""An Airflow 3 DAG that updates a lake every 10 minutes and writes its report.

Copy it into the DAG folder. Airflow's workers need the command `coterie` on their PATH.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from shlex import quote

from airflow.providers.standard.operators.bash import (  # type: ignore[import-not-found]
    BashOperator,
)
from airflow.sdk import DAG  # type: ignore[import-not-found]

SOURCE = os.environ.get("COTERIE_SOURCE", "kafka:broker:9092")
LAKE = os.environ.get("COTERIE_LAKE", "/srv/lake")
REPORT = os.environ.get("COTERIE_REPORT", "/srv/www/groups.html")


with DAG(
    "coterie_pipeline",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # one run reads everything that is new
    max_active_runs=1,  # only one run may write to a lake
    # A failed run is repeated; it continues at its last commit.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
):
    update = BashOperator(
        task_id="update",
        bash_command=f"coterie pipeline run --from {quote(SOURCE)} --to {quote(LAKE)}",
    )
    report = BashOperator(
        task_id="report",
        bash_command=(
            f"coterie pipeline report --lake {quote(LAKE)} --to {quote(REPORT)}"
        ),
    )
    update >> report
