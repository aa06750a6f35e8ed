#!/usr/bin/env bash
# Measures what exact accumulation costs beside float accumulation, on the same cores in the same run, in
# turns: seconds per step, and processor seconds of the whole run, of a local swarm of one stage with two
# replicas (so that every parameter is summed between them), one thread each. The reduce moves twice the
# bytes (reduce_bench has its rates).
# Usage: bench/exact.sh [BUILD_FOLDER=build/release] [STEPS=6] [MICROBATCHES=16] [WIDTH=512]
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
metadata: {name: exact}
spec:
  model:
    config: {hidden_size: $width, num_hidden_layers: 8, num_attention_heads: 8, intermediate_size: $((width * 43 / 16)), vocab_size: 256}
  data: {uri: $folder/numbers.txt}
  training: {maxSteps: $steps, globalBatchSize: $microbatches, microbatchSize: 1, sequenceLength: 256}
  pipeline: {stages: 1, minReplicasPerStage: 2}
  checkpoint: {intervalSteps: 1000000}
YAML
runs=()
TIMEFORMAT=%U
for i in 1 2; do
  for accumulation in Float Exact; do
    runs+=("$accumulation-$i")
    { time "$bin/swarmctl" run -f "$folder/job.yaml" --out "$folder/$accumulation-$i" \
      --threads-per-worker 1 --set training.accumulation=$accumulation >/dev/null 2>&1; } \
      2>"$folder/$accumulation-$i.cpu"
  done
done
python3 - "$folder" "${runs[@]}" <<'PY'
import json, sys
folder, runs = sys.argv[1], sys.argv[2:]
seconds = {"Float": [], "Exact": []}
processor = {"Float": 0, "Exact": 0}
for run in runs:
    kind = run.split("-")[0]
    lines = [json.loads(line) for line in open(f"{folder}/{run}/steps.jsonl")][1:]
    seconds[kind] += [line["seconds"] for line in lines]
    processor[kind] += float(open(f"{folder}/{run}.cpu").read())
columns = [{k: sum(v) / len(v) for k, v in seconds.items()}, {k: min(v) for k, v in seconds.items()}, processor]
print("%-8s %12s %12s %12s" % ("", "mean s/step", "least s/step", "processor s"))
for kind in seconds:
    print("%-8s %12.3f %12.3f %12.1f" % (kind, *(column[kind] for column in columns)))
print("%-8s %12.3f %12.3f %12.3f" % ("ratio", *(column["Exact"] / column["Float"] for column in columns)))
PY
