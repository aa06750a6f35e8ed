#!/usr/bin/env bash
# Runs the benchmarks that need no root, no download and no text of the user's, one after the other, each beside
# its yardstick. `make bench` builds them first. The other benchmarks: bench/codecs.py, bench/simulate.sh,
# bench/reduce_codec.sh, bench/boundary_study.py, bench/page.py, bench/hollow/hollow.py, bench/wan/README.md, `make scale`.
# Usage: bench/run.sh [BUILD_FOLDER=build/release]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
for program in wiring flow detector trainer page transport reduce joining tier block_codes boundary stage; do
  printf '\n== %s\n' "$program"
  "$build/bench/${program}_bench"
done
for script in recovery throughput exact; do
  printf '\n== %s\n' "$script"
  "bench/$script.sh" "$build"
done
