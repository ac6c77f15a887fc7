#!/usr/bin/env bash
# versions.sh RESOLUTION: run the fast tests with other versions of the dependencies, in a
# virtual environment of their own. RESOLUTION is uv's: lowest-direct for the lower bounds
# of pyproject.toml, highest for the newest that the index has.
set -euo pipefail

resolution=$1
venv=build/versions/$resolution

mkdir -p build/versions
.venv/bin/uv venv --quiet --clear --python .venv/bin/python "$venv"
.venv/bin/uv pip install --quiet --python "$venv/bin/python" --resolution "$resolution" \
  --editable '.[dev]'
echo "$resolution: $(.venv/bin/uv pip list --quiet --python "$venv/bin/python" | wc -l) packages"
"$venv/bin/python" -m pytest -n 2 -q -m 'not slow' \
  --ignore tests/real_clients --ignore tests/crash
