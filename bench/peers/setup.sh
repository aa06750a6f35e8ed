#!/usr/bin/env bash
# Makes the Python environment of the peers' measurements in $SWARM_DEPS/peers (3 GB: the wheel of torch
# brings CUDA along). Idempotent; prints the folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${SWARM_DEPS:-$PWD/.deps}/peers
wanted="torch==2.11.0 numpy==2.3.4"
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$wanted" ]; then
  echo "peers: installing $wanted" >&2
  python3 -m venv --clear "$folder"
  # shellcheck disable=SC2086
  "$folder/bin/pip" install -q --disable-pip-version-check --no-cache-dir $wanted >&2
  echo "$wanted" >"$folder/stamp"
fi
echo "$folder"
