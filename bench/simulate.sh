#!/usr/bin/env bash
# Throughput over the optimum when the traces of a folder are replayed, for each number of stages and
# each time to load a stage's state: moves (what swarm-worker does), copies (the study), SWARM's rule
# every minute and every five, none, and the bound. Means over ten seeds.
# Usage: bench/simulate.sh TRACE_FOLDER [BUILD_FOLDER]
set -euo pipefail
[ $# -ge 1 ] && [ -d "$1" ] || { echo "usage: bench/simulate.sh TRACE_FOLDER [BUILD_FOLDER]" >&2; exit 2; }
program=${2:-$(dirname "$0")/../build/release}/bin/swarmctl
export STAGES LOAD
printf '%-26s %2s %4s  %7s %7s %7s %7s %7s %7s  %11s %9s %9s\n' trace S load \
  moves copies T=60 T=300 none bound moves/least empty empty300
for trace in "$1"/*; do
  for STAGES in 4 8; do
    for LOAD in 10 60; do
      run() { "$program" simulate --trace "$trace" --stages "$STAGES" --state-load "$LOAD" --runs 10 --json "$@"; }
      { run; run --period 60; } | python3 -c '
import json, os, sys
decoder, text, all = json.JSONDecoder(), sys.stdin.read(), []
while text.strip():
    one, end = decoder.raw_decode(text.lstrip())
    text = text.lstrip()[end:]
    all.append(one)
ours, minute = all
rule = ours["policies"]
columns = [rule["Moves"], rule["Copies"], minute["policies"]["Periodic"], rule["Periodic"], rule["None"]]
row = [100 * one["efficiency"] for one in columns] + [100 * ours["attainable_efficiency"]]
print("%-26s %2s %4s  " % (os.path.basename(ours["trace"])[:26], os.environ["STAGES"], os.environ["LOAD"])
      + " ".join("%7.2f" % value for value in row)
      + "  %5.1f/%5.1f %8.3f%% %8.3f%%" % (rule["Moves"]["moves"], ours["least_moves"],
          100 * rule["Moves"]["stage_empty_share"], 100 * rule["Periodic"]["stage_empty_share"]))'
    done
  done
done
