#!/usr/bin/env bash
# Configures the build folder of a preset and builds targets there. Prints the expected cost first, then the progress:
# one updated line on a terminal, a line every ten percent elsewhere. Warnings and errors are printed in full.
# Usage: scripts/build.sh PRESET TARGET...     (JOBS=N: compilers at once; default: as many as there are cores)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
folder=build/$preset
jobs=${JOBS:-$(nproc)}
mkdir -p build
# This configures once; afterwards ninja notices changed CMake files itself.
if [ ! -f "$folder/build.ninja" ]; then
  echo "build: configuring $folder"
  # Sanitizer and debug builds compile each source alone, so a source that lacks an include fails.
  unity=OFF
  case $preset in release | cuda) unity=ON ;; esac
  cmake --preset "$preset" -DSWARM_UNITY=$unity >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log" >&2; exit 1; }
fi
# After a change of a CMake file, ninja configures first; then the count is right.
ninja -C "$folder" build.ninja >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log" >&2; exit 1; }
steps=$(ninja -C "$folder" -n "$@" | grep -c '^\[' || true)
[ "$steps" -gt 0 ] || exit 0

# The mean processor seconds and disk space of a step, measured over a whole build without a compiler cache.
seconds=$((steps * ${SWARM_STEP_SECONDS:-5} / jobs))
megabytes=$((steps * 3))
if [ $seconds -ge 90 ]; then
  echo "build: $steps steps: about $(((seconds + 30) / 60)) minutes with $jobs compilers, $megabytes MB in $folder"
fi
if [ -t 1 ]; then
  NINJA_STATUS="build: [%f/%t, %p, %es] " exec ninja -C "$folder" -j "$jobs" "$@"
fi
NINJA_STATUS="[%f/%t] " ninja -C "$folder" -j "$jobs" "$@" | awk '
  match($0, /^\[[0-9]+\/[0-9]+\] /) {
    split(substr($0, 2, RLENGTH - 3), at, "/")
    tenth = int(10 * at[1] / at[2])
    if (tenth > told) { printf "build: %d %% (%d of %d steps)\n", 10 * tenth, at[1], at[2]; fflush(); told = tenth }
    next
  }
  /^ninja: (Entering|no work)/ { next }
  { print; fflush() }'
