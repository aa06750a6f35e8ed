#!/usr/bin/env bash
# What the departure of a worker costs: time from kill -9 (and from SIGSTOP) to the next completed microbatch of
# that stage, and throughput over the disturbed time beside what the living workers could give; all in one
# run. Workers are slowed down so that each has its own share of the machine, as on machines of their own:
# otherwise, with more workers than cores, the death of one would speed up the others.
# Targets: kill p50 <= 0.2 s, p99 <= 1 s; silent <= 3.5 s; ratio >= 0.95. Usage: bench/recovery.sh [BUILD_FOLDER] [SECONDS=150]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/${1:-build/release}/bin
[[ ${1:-} = /* ]] && bin=$1/bin
seconds=${2:-150}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
seq 1 60000 >"$folder/numbers.txt"
cat >"$folder/job.yaml" <<YAML
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: recovery}
spec:
  model:
    config: {hidden_size: 96, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 256, vocab_size: 256}
  data: {uri: $folder/numbers.txt}
  training: {maxSteps: 1000000, globalBatchSize: 32, microbatchSize: 1, sequenceLength: 64}
  schedule: {type: Constant}
  pipeline: {stages: 2}
  workers: {replicas: 6}
  checkpoint: {intervalSteps: 100}
YAML
slow_factor=${SLOW_FACTOR:-4}
quiet=30
{
  for i in $(seq 0 199); do echo "slow worker-$i by $slow_factor at 0s"; done
  echo "kill any about every 8s seed 1 after step $quiet"
  echo "stop any about every 25s for 6s seed 2 after step $quiet"
} >"$folder/chaos.txt"
status=0
timeout --signal=INT "$seconds" "$bin/swarmctl" run -f "$folder/job.yaml" --out "$folder/out" --plaintext \
  --trace-progress --chaos "$folder/chaos.txt" --restart-delay 0.2 >"$folder/log" 2>&1 || status=$?
if [ $status -ne 0 ] && [ $status -ne 124 ]; then
  tail "$folder/log"
  exit 1
fi
[ -z "${KEEP:-}" ] || cp -r "$folder/out" "$KEEP"
python3 bench/recovery.py "$folder/out" 32 "$quiet"
