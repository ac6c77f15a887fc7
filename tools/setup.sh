#!/usr/bin/env bash
# Make an empty virtual environment in $1 with the newest fitting Python there is.
# Set PYTHON to choose one. Says in a sentence what is missing, and ends with 1.
set -euo pipefail

venv=$1

fits() {
  command -v "$1" >/dev/null &&
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
    if fits "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "Coterie needs Python 3.11 or newer: install it, or say PYTHON=path." >&2
  exit 1
}

python=$(find_python)
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -m pip --version &>/dev/null; then
  echo "making $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv" || {
    echo "$python cannot make a virtual environment: on Debian and Ubuntu" \
      "install python3-venv; elsewhere make sure ensurepip is there." >&2
    exit 1
  }
fi
echo "installing Coterie and what its tests need (a minute at first)"
