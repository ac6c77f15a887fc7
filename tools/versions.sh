#!/usr/bin/env bash
# versions.sh lowest|newest [PYTEST-ARGUMENT ...]: run tests with other versions of what
# Coterie depends on, in a virtual environment of their own. `lowest` has the lower bounds
# of pyproject.toml, as requirements-lowest.txt names them. `newest` has what the index
# offers today, test tools included: the one environment that is resolved on purpose.
set -euo pipefail

versions=$1
venv=build/versions/$versions

rm -rf "$venv"
mkdir -p build/versions
case $versions in
  lowest)
    PYTHON=.venv/bin/python INSTALLER=.venv/bin/uv bash tools/setup.sh "$venv" dev lowest
    ;;
  newest)
    .venv/bin/python -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --upgrade pip
    "$venv/bin/python" -m pip install --quiet --editable '.[dev]'
    ;;
esac
echo "$versions: $("$venv/bin/python" -m pip list | wc -l) packages"
"$venv/bin/python" -m pytest "${@:2}"
