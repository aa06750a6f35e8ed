#!/usr/bin/env bash
# What workers hold beside the state that they serve, under a joiner on a slow link, two peers that do not reach each
# other, a worker that nobody but the trainer reaches, and participants that are late for sums; beside the budget, and
# beside the resident memory of the processes. Fails if a worker holds more than its budget.
# Usage: bench/memory.sh [BUILD_FOLDER] [SECONDS=90] [BUDGET_MIB=96]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/${1:-build/release}/bin
[[ ${1:-} = /* ]] && bin=$1/bin
seconds=${2:-90}
budget=$((${3:-96} << 20))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
seq 1 60000 >"$folder/numbers.txt"
cat >"$folder/job.yaml" <<YAML
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: memory}
spec:
  model:
    config: {hidden_size: 128, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 344, vocab_size: 256}
  data: {uri: $folder/numbers.txt}
  training: {maxSteps: 1000000, globalBatchSize: 16, microbatchSize: 2, sequenceLength: 256}
  schedule: {type: Constant}
  pipeline: {stages: 2}
  workers: {replicas: 4, memoryBudgetBytes: $budget}
  checkpoint: {intervalSteps: 1000}
YAML
cat >"$folder/chaos.txt" <<CHAOS
delay worker-4 by 1500ms at 8s for 60s
join at 10s
cut worker-0 from worker-2 at 20s for 15s
stop any about every 7s for 700ms seed 3 after 15s
cut worker-3 from all at 45s for 2s
CHAOS
timeout --signal=INT "$seconds" "$bin/swarmctl" run -f "$folder/job.yaml" --out "$folder/out" --plaintext \
  --threads-per-worker 1 --no-moves --chaos "$folder/chaos.txt" >"$folder/log" 2>&1 &
run=$!
status=0
python3 bench/memory.py "$folder/out" "$run" || status=$?
wait "$run" || true
[ $status -eq 0 ] || tail "$folder/log"
exit $status
