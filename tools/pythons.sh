#!/usr/bin/env bash
# pythons.sh [PYTEST-ARGUMENT ...]: run tests on each Python of `tested`, with the packages
# of requirements-dev.txt in build/python-X.Y. A Python is found as pythonX.Y on PATH, or
# in the directory of pyenv whether it is activated or not. PYTHONS="PATH ..." tests others
# instead. A Python that is missing is an error, not a skip. Exits with 1 when tests fail.
set -euo pipefail

tested=(3.12 3.13)
pyenv=${PYENV_ROOT:-$HOME/.pyenv}

# Prints the version X.Y of a command, and nothing for one that does not run: a shim of
# pyenv is on PATH for every version that is installed, and fails for inactive ones.
version_of() {
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

find_python() {
  local candidate
  for candidate in "python$1" "$pyenv/versions/$1".*/bin/python; do
    if [ "$(version_of "$candidate")" = "$1" ]; then
      echo "$candidate"
      return
    fi
  done
  echo "Python $1 is missing. Install it (\`pyenv install $1\`, \`uv python install $1\`, or" \
    "the packages python$1 and python$1-venv of Debian and Ubuntu), or set" \
    "PYTHONS='PATH ...' to test others." >&2
  exit 1
}

read -ra pythons <<<"${PYTHONS:-}"
if [ ${#pythons[@]} = 0 ]; then
  for version in "${tested[@]}"; do
    python=$(find_python "$version")
    pythons+=("$python")
  done
fi

status=0
for python in "${pythons[@]}"; do
  version=$(version_of "$python")
  if [ -z "$version" ]; then
    echo "$python of PYTHONS does not run: give the path of a Python." >&2
    exit 1
  fi
  venv=build/python-$version
  if [ ! "$venv/.ready" -nt requirements-dev.txt ] ||
    [ ! "$venv/.ready" -nt pyproject.toml ]; then
    rm -rf "$venv"
    PYTHON=$python INSTALLER=.venv/bin/uv bash tools/setup.sh "$venv" dev
    touch "$venv/.ready"
  fi
  "$venv/bin/python" -m pytest "$@" || status=1
done
exit $status
