#!/bin/sh
# What a new user does with the programs, by nothing but a shell: trains the example for a few steps, in one process
# and with two workers. The losses are in OUT/train/steps.jsonl and OUT/run/steps.jsonl.
# Usage: tests/dist/story.sh BIN EXAMPLE TEXT OUT
set -eu
bin=$1 example=$2 text=$3 out=$4
for program in swarmctl swarm-worker swarm-operator; do
  echo "$program $("$bin/$program" --version)"
done
# Exact sums: every way to train this job gives the same bits.
set -- -f "$example" --set data.uri="$text" --set training.maxSteps=4 --set schedule.warmupSteps=1 \
  --set training.accumulation=Exact --set pipeline.stages=2
"$bin/swarmctl" validate "$@"
"$bin/swarmctl" train "$@" --threads 1 --out "$out/train"
"$bin/swarmctl" run "$@" --workers 2 --threads-per-worker 1 --out "$out/run"
