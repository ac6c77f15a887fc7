#!/usr/bin/env bash
# setup.sh VENV [KIND ...]: install the packages of requirements-KIND.txt into VENV with
# pip: exactly those, each checked against its hashes. Nothing is resolved, so nothing
# that was published since `make lock` is installed, whatever pip's version.
#
# Kinds are dev (the default), demo, pipeline, lowest and spark-4.2; of several kinds
# the last has the last word. With dev and demo Coterie itself is installed, editable.
# VENV is created with the first Python that is new enough; PYTHON=path chooses one.
# INSTALLER=path installs with uv instead of pip. It keeps unpacked packages and links them
# into environments, so a second environment takes seconds.
# Prints one sentence about a missing requirement and exits with 1. Host names of package
# indexes are removed from pip's output.
set -euo pipefail

venv=$1
kinds=("${@:2}")
[ ${#kinds[@]} -gt 0 ] || kinds=(dev)

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

hide_hosts() {
  sed -E "s#https?://[^ ,)>]+#(an index)#g; s#host='[^']*'#an index#g"
}

run_pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@" 2>&1 | hide_hosts
}

run_uv() {
  "$INSTALLER" pip install --python "$venv/bin/python" "$@" 2>&1 | hide_hosts
}

# Builds use the setuptools of the lock, which install_lock installs first: without
# --no-build-isolation the newest would be fetched for each package that has no wheel.
install_packages() {
  local run=(run_pip install --use-pep517)
  [ -z "${INSTALLER:-}" ] || run=(run_uv)
  "${run[@]}" --quiet --no-deps --no-build-isolation "$@" || {
    echo "it could not be installed: see the lines above." >&2
    exit 1
  }
}

install_lock() {
  local lock=requirements-$1.txt build_tools
  build_tools=$(mktemp)
  awk '/^[^ ]/ { wanted = /^setuptools==/ } wanted' "$lock" >"$build_tools"
  install_packages --require-hashes --requirement "$build_tools"
  rm "$build_tools"
  install_packages --require-hashes --requirement "$lock"
}

if ! "$venv/bin/python" -m pip --version &>/dev/null; then
  make_venv
fi
case ${kinds[0]} in
  dev) echo "installing Coterie and its development tools (takes a minute the first time)" ;;
  demo) echo "installing Coterie and a Kafka client" ;;
esac
for kind in "${kinds[@]}"; do
  install_lock "$kind"
done
case ${kinds[0]} in
  dev | demo) install_packages --editable . ;;
esac
if ! run_pip check >"$venv/pip-check"; then
  cat "$venv/pip-check" >&2
  echo "requirements-${kinds[-1]}.txt lacks what this platform needs: report it, please." >&2
  exit 1
fi
