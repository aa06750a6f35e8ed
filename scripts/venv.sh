#!/usr/bin/env bash
# Makes the Python environment $SWARM_DEPS/NAME, or updates it, so that it has the given packages. Idempotent; prints
# the folder. Usage: scripts/venv.sh NAME PACKAGE==VERSION...
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift
folder=${SWARM_DEPS:-$PWD/.deps}/$name
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$*" ]; then
  echo "$name: installing $*" >&2
  python3 -m venv "$folder"
  # pip runs as a module, because a user may have moved the environment.
  "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir "$@" >&2
  echo "$*" >"$folder/stamp"
fi
echo "$folder"
