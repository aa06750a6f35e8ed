#!/usr/bin/env bash
# Makes the Python environment of the plots in $SWARM_DEPS/plots. Idempotent; prints the folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${SWARM_DEPS:-$PWD/.deps}/plots
wanted="matplotlib==3.11.2 numpy==2.4.6 contourpy==1.3.3 cycler==0.12.1 fonttools==4.68.0 kiwisolver==1.5.1 \
packaging==26.3 pillow==13.0.0 pyparsing==3.3.3 python-dateutil==4.0.0 tzdata==2026.6"
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$wanted" ]; then
  echo "plots: installing $wanted" >&2
  python3 -m venv --clear "$folder"
  # shellcheck disable=SC2086
  "$folder/bin/pip" install -q --disable-pip-version-check --no-cache-dir $wanted >&2
  echo "$wanted" >"$folder/stamp"
fi
echo "$folder"
