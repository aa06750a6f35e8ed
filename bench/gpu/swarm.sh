#!/usr/bin/env bash
# Trains a small Llama for a few steps twice: by two workers of one device, a stage each, with a trainer, and by one
# process on the CPU. Prints as JSON how far the losses are apart, and the tokens per second of both.
# Usage: bench/gpu/swarm.sh BIN_FOLDER TEXT OUT DEVICE     (cuda:0; cpu to try the script)
set -euo pipefail
bin=$1 text=$2 out=$3 device=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$out"
mkdir -p "$out"
sed "s|URI|$text|" "$here/job.yaml" >"$out/job.yaml"
"$bin/swarmctl" train -f "$out/job.yaml" --out "$out/cpu" --threads "$(nproc)" >"$out/cpu.log" 2>&1 ||
  { tail -n 20 "$out/cpu.log" >&2; exit 1; }

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"$bin/swarm-worker" --role trainer --plaintext --job "$out/cpu/job.json" --out "$out/device" --layout 1,1 \
  --address-file "$out/address" >"$out/trainer.log" 2>&1 &
trainer=$!
until [ -s "$out/address" ] || ! kill -0 $trainer 2>/dev/null; do sleep 0.1; done
for stage in 0 1; do
  "$bin/swarm-worker" --role stage --plaintext --id "worker-$stage" --trainer "$(cat "$out/address")" \
    --device "$device" >"$out/worker-$stage.log" 2>&1 &
done
# Where a worker cannot start, the trainer would wait for it.
wait -n || true
if kill -0 $trainer 2>/dev/null && [ "$(jobs -r | wc -l)" -lt 3 ] && [ ! -s "$out/device/steps.jsonl" ]; then
  tail -n 20 "$out"/worker-*.log >&2
  exit 1
fi
wait $trainer || { tail -n 20 "$out/trainer.log" >&2; exit 1; }

env -u LD_LIBRARY_PATH python3 - "$out" "$device" <<'PYTHON'
import json, statistics, sys
out, device = sys.argv[1:]
def steps(name):
    with open(f"{out}/{name}/steps.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
cpu, other = steps("cpu"), steps("device")
apart = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(cpu, other, strict=True))
rate = lambda some: statistics.median(step["tokens_per_second"] for step in some[2:])
print(json.dumps({"device": device, "steps": len(cpu), "losses_apart": apart, "loss": other[-1]["loss"],
                  "tokens_per_second": rate(other), "tokens_per_second_cpu": rate(cpu)}, indent=1))
sys.exit(0 if apart < 1e-3 else 1)
PYTHON
