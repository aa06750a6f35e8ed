#!/usr/bin/env bash
# What thin reduces (training.reduceCodec) cost in loss: validation loss after STEPS steps of a local swarm
# of one stage with three replicas, for each codec and seed, relative to None with the same seed, and the
# bytes that a step's reduce sends. Text: any UTF-8 file.
# Usage: bench/reduce_codec.sh TEXT [BUILD_FOLDER=build/release] [STEPS=300] [SEEDS="1 2 3"]
set -euo pipefail
text=$(realpath "${1:?a text file to train on}")
cd "$(dirname "$0")/.."
bin=$PWD/${2:-build/release}/bin
steps=${3:-300}
seeds=${4:-1 2 3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
split=$(($(wc -c <"$text") * 9 / 10))
head -c "$split" "$text" >"$folder/train.txt"
tail -c +$((split + 1)) "$text" >"$folder/held-back.txt"
cat >"$folder/job.yaml" <<YAML
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: thin}
spec:
  model:
    config: {hidden_size: 96, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 256, vocab_size: 256}
  data: {uri: $folder/train.txt, validationUri: $folder/held-back.txt}
  training: {maxSteps: $steps, globalBatchSize: 12, microbatchSize: 2, sequenceLength: 128, validationIntervalSteps: $steps, validationSequences: 64}
  optimizer: {learningRate: 2e-3}
  schedule: {type: Cosine, warmupSteps: 30}
  pipeline: {stages: 1, minReplicasPerStage: 3}
  workers: {replicas: 3}
  checkpoint: {intervalSteps: $steps}
YAML
for seed in $seeds; do
  for codec in None BF16 Int8 Int4; do
    "$bin/swarmctl" run -f "$folder/job.yaml" --out "$folder/$codec-$seed" --threads-per-worker 1 \
      --set training.seed=$seed --set training.reduceCodec=$codec >"$folder/log" 2>&1 ||
      { tail -n 20 "$folder/log" >&2; exit 1; }
  done
done
python3 - "$folder" $seeds <<'PY'
import json, sys
folder, seeds = sys.argv[1], sys.argv[2:]
def validation(codec, seed):
    lines = [json.loads(line) for line in open(f"{folder}/{codec}-{seed}/events.jsonl")]
    return [line["loss"] for line in lines if line.get("kind") == "Validation"][-1]
print("%-6s" % "codec", *("%14s" % f"seed {seed}" for seed in seeds), "%10s" % "mean")
for codec in ["None", "BF16", "Int8", "Int4"]:
    losses = [validation(codec, seed) for seed in seeds]
    changes = [100 * (loss / validation("None", seed) - 1) for loss, seed in zip(losses, seeds)]
    print("%-6s" % codec, *("%7.4f %+5.2f%%" % pair for pair in zip(losses, changes)),
          "%+9.2f%%" % (sum(changes) / len(changes)))
PY
