#!/usr/bin/env bash
# Makes the Python environment of the peers' measurements in $SWARM_DEPS/peers (3 GB: the wheel of torch
# brings CUDA along). Idempotent; prints the folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${SWARM_DEPS:-$PWD/.deps}/peers
base="torch==2.11.0 numpy==2.3.4" # another base makes the environment anew
more="bitsandbytes==0.50.2"       # what is added to it as it is
# As a module: the environment may have been moved since it was made.
pip=("$folder/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir)
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$base" ]; then
  echo "peers: installing $base" >&2
  python3 -m venv --clear "$folder"
  # shellcheck disable=SC2086
  "${pip[@]}" $base >&2
  echo "$base" >"$folder/stamp"
fi
if [ "$(cat "$folder/stamp.more" 2>/dev/null)" != "$more" ]; then
  echo "peers: adding $more" >&2
  # shellcheck disable=SC2086
  "${pip[@]}" $base $more >&2
  echo "$more" >"$folder/stamp.more"
fi
echo "$folder"
