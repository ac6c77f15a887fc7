#!/usr/bin/env bash
# spark42.sh [PYTEST-ARGUMENT ...]: run end-to-end tests of the pipeline with PySpark 4.2,
# the newest version that Delta Lake supports. build/spark-4.2 is a virtual environment
# with PySpark 4.2; all other packages are those of .venv.
set -euo pipefail

venv=build/spark-4.2
jars=build/delta-spark
requirements=requirements-spark-4.2.txt

if [ ! "$venv/.ready" -nt "$requirements" ]; then
  rm -rf "$venv"
  PYTHON=.venv/bin/python bash tools/setup.sh "$venv" spark-4.2
  packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  own=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "import site; site.addsitedir('$packages')" >"$own/packages-of-venv.pth"
  touch "$venv/.ready"
fi
if ! compgen -G "$jars/delta-spark*.jar" >/dev/null; then
  mvn -q -B -f tests/pipeline/cluster/delta-spark.xml dependency:copy-dependencies \
    "-DoutputDirectory=$PWD/$jars" >/dev/null 2>&1 ||
    echo "Maven could not fetch Delta's jars: the test of Delta in Spark is skipped"
fi
"$venv/bin/python" -c 'import pyspark; print("PySpark", pyspark.__version__)'
"$venv/bin/python" -m pytest -q tests/pipeline/test_pipeline_delta_in_spark.py \
  tests/pipeline/jobs/test_run.py "$@"
