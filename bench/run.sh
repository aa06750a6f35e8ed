#!/usr/bin/env bash
# All benchmarks, each beside its yardstick, but for the operator's (make scale). Usage: bench/run.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
for program in wiring_bench detector_bench trainer_bench reduce_bench transport_bench codec_bench boundary_bench stage_bench; do
  [ -x "$build/bench/$program" ] || continue
  printf '\n== %s\n' "$program"
  "$build/bench/$program"
done
printf '\n== recovery\n'
bench/recovery.sh "$build"
printf '\n== throughput\n'
bench/throughput.sh "$build"

printf '\n== exact accumulation\n'
bench/exact.sh "$build"
