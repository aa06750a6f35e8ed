#!/usr/bin/env bash
# Trains a small Llama for a few steps twice: by two workers of one device, a stage each, with a trainer, and by one
# process on the CPU. Prints as JSON how far the losses are apart, and the tokens per second of both. With Exact the one
# process is on the device too, and all losses and norms must have the same bits.
# Usage: bench/gpu/swarm.sh BIN_FOLDER TEXT OUT DEVICE [Exact]     (cuda:0; cpu to try the script)
set -euo pipefail
bin=$1 text=$2 out=$3 device=$4 accumulation=${5:-Float} alone=cpu
[ $accumulation = Float ] || alone=$device
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$out"
mkdir -p "$out"
sed "s|URI|$text|; s|ACCUMULATION|$accumulation|" "$here/job.yaml" >"$out/job.yaml"
# Exact bits depend on the threads, which workers have one of.
"$bin/swarmctl" train -f "$out/job.yaml" --out "$out/alone" --device "$alone" \
  --threads "$([ $accumulation = Exact ] && echo 1 || nproc)" >"$out/alone.log" 2>&1 ||
  { tail -n 20 "$out/alone.log" >&2; exit 1; }

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"$bin/swarm-worker" --role trainer --plaintext --job "$out/alone/job.json" --out "$out/device" --layout 1,1 \
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

env -u LD_LIBRARY_PATH python3 - "$out" "$device" "$accumulation" <<'PYTHON'
import json, statistics, sys
out, device, accumulation = sys.argv[1:]
def steps(name):
    with open(f"{out}/{name}/steps.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
alone, other = steps("alone"), steps("device")
apart = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(alone, other, strict=True))
same = all(a[what] == b[what] for a, b in zip(alone, other, strict=True) for what in ("loss", "grad_norm"))
rate = lambda some: statistics.median(step["tokens_per_second"] for step in some[2:])
print(json.dumps({"device": device, "accumulation": accumulation, "steps": len(alone), "losses_apart": apart,
                  "same_bits": same, "loss": other[-1]["loss"], "tokens_per_second": rate(other),
                  "tokens_per_second_alone": rate(alone)}, indent=1))
sys.exit(0 if (same if accumulation == "Exact" else apart < 1e-3) else 1)
PYTHON
