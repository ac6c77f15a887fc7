#!/usr/bin/env bash
# setup.sh VENV [dev|demo|pipeline]: install Coterie into VENV, with pip only: the packages
# of requirements-dev.txt (or -demo, -pipeline), each checked against its hashes, then
# Coterie itself, editable. The default is dev: Coterie with everything its tests need.
# VENV is created with the first Python that is new enough; PYTHON=path chooses one.
# Prints one sentence about a missing requirement and exits with 1. Host names of package
# indexes are removed from pip's output.
set -euo pipefail

venv=$1
kind=${2:-dev}

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
  echo "Coterie needs Python 3.11 or newer: install it, or set PYTHON=path." >&2
  exit 1
}

make_venv() {
  local python
  python=$(find_python)
  echo "creating $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv" || {
    echo "$python cannot make a virtual environment: on Debian and Ubuntu" \
      "install python3-venv; elsewhere make sure ensurepip is available." >&2
    exit 1
  }
}

if ! "$venv/bin/python" -m pip --version &>/dev/null; then
  make_venv
fi
pip_install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" 2>&1 |
    sed -E "s#https?://[^ ,)>]+#(an index)#g; s#host='[^']*'#an index#g" || {
    echo "pip could not install it: see the lines above." >&2
    exit 1
  }
}

case $kind in
  dev) echo "installing Coterie and its development tools (takes a minute the first time)" ;;
  demo) echo "installing Coterie and a Kafka client" ;;
esac
pip_install --require-hashes --requirement "requirements-$kind.txt"
if [ "$kind" != pipeline ]; then
  pip_install --no-deps --no-build-isolation --editable .
fi
