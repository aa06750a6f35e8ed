#!/usr/bin/env bash
# Measures tokens per second of a local swarm beside the single-process reference, on the same cores in the
# same run: S = 2 and S = 4 workers of one thread each, sync and delayed, against one process with as many
# threads as there are cores. The target is at least 0.90.
# Usage: bench/throughput.sh [BUILD_FOLDER=build/release] [STEPS=6] [MICROBATCHES=16] [WIDTH=512]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "${1:-build/release}")/bin
steps=${2:-6}
microbatches=${3:-16}
width=${4:-512}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
seq 1 400000 >"$folder/numbers.txt"
cat >"$folder/job.yaml" <<YAML
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: throughput}
spec:
  model:
    config: {hidden_size: $width, num_hidden_layers: 8, num_attention_heads: 8, intermediate_size: $((width * 43 / 16)), vocab_size: 256}
  data: {uri: $folder/numbers.txt}
  training: {maxSteps: $steps, globalBatchSize: $microbatches, microbatchSize: 1, sequenceLength: 256}
  pipeline: {stages: 2}
  checkpoint: {intervalSteps: 1000000}
YAML
# The mean rate over all steps but the first, from steps.jsonl.
rate() {
  python3 - "$1/steps.jsonl" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])][1:]
print(sum(l["tokens"] for l in lines) / sum(l["seconds"] for l in lines))
PY
}
cores=$(nproc)
reference() {
  "$bin/swarmctl" train -f "$folder/job.yaml" --out "$folder/$1" --threads "$cores" "${@:2}" >/dev/null
  rate "$folder/$1"
}
swarm() {
  "$bin/swarmctl" run -f "$folder/job.yaml" --out "$folder/$1" --threads-per-worker 1 "${@:2}" >/dev/null
  rate "$folder/$1"
}
before=$(reference before)
printf '%-28s %9.1f tokens/s\n' "one process, $cores threads" "$before"
declare -A rates
for mode in Sync Delayed; do
  for s in 2 4; do
    rates[$mode-$s]=$(swarm "$mode-$s" --set training.stepMode=$mode --set pipeline.stages=$s)
  done
done
after=$(reference after)
printf '%-28s %9.1f tokens/s\n' "the same, afterwards" "$after"
for key in Sync-2 Sync-4 Delayed-2 Delayed-4; do
  python3 -c "print('%-28s %9.1f tokens/s  %.2f of one process' % ('S = ${key#*-}, ${key%-*}', ${rates[$key]}, 2 * ${rates[$key]} / ($before + $after)))"
done
