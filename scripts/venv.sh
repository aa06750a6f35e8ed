#!/usr/bin/env bash
# Makes the Python environment $SWARM_DEPS/NAME with the given packages, or changes it to have them. Idempotent; prints
# the folder. Usage: scripts/venv.sh NAME PACKAGE==VERSION...
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
shift
folder=${SWARM_DEPS:-$PWD/.deps}/$name
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$*" ]; then
  echo "$name: installing $*" >&2
  python3 -m venv "$folder"
  # As a module: the environment may have been moved since it was made.
  "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir "$@" >&2
  echo "$*" >"$folder/stamp"
fi
echo "$folder"
