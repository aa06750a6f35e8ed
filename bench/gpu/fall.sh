#!/usr/bin/env bash
# The GPU of one worker falls off while it trains (fall.cu): four workers of one device, two a stage, train a small Llama
# for 80 steps with exact sums, once undisturbed, and once while that happens. Prints as JSON what the worker said, and
# whether all losses and norms have the same bits; ends with 0 if they do and it ended by itself.
# Usage: bench/gpu/fall.sh BIN_FOLDER TEXT OUT DEVICE
set -euo pipefail
bin=$1 text=$2 out=$3 device=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$out"
mkdir -p "$out/told"
sed "s|URI|$text|; s|ACCUMULATION|Exact|; s|maxSteps: 15|maxSteps: 80|; s|intervalSteps: 15|intervalSteps: 80|" \
  "$here/job.yaml" >"$out/job.yaml"
train() { # NAME
  "$bin/swarmctl" run -f "$out/job.yaml" --out "$out/$1" --devices "$device" --workers "0=2,1=2" \
    --threads-per-worker 1 --page none >"$out/$1.log" 2>&1
}
train undisturbed || { tail -n 20 "$out/undisturbed.log"; exit 1; } >&2

CUDA_INJECTION64_PATH=$bin/../lib/libswarm_fall.so SWARM_FALL=$out/told train fallen &
program=$!
trap 'kill $program 2>/dev/null || true' EXIT
until [ -f "$out/fallen/steps.jsonl" ] && [ "$(wc -l <"$out/fallen/steps.jsonl")" -ge 10 ]; do
  sleep 0.02
  kill -0 $program 2>/dev/null || { tail -n 20 "$out/fallen.log"; exit 1; } >&2
done
worker=$(pgrep -f -- "swarm-worker.*--id[= ]worker-3" | head -n 1)
touch "$out/told/$worker"
code=0
wait $program || code=$?
trap - EXIT

env -u LD_LIBRARY_PATH python3 - "$out" "$device" "$code" <<'PYTHON'
import json, pathlib, sys
out, device, code = sys.argv[1:]
def lines(name):
    with open(f"{out}/{name}", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
undisturbed, other = lines("undisturbed/steps.jsonl"), lines("fallen/steps.jsonl")
same = len(undisturbed) == len(other) and all(
    a[what] == b[what] for a, b in zip(undisturbed, other) for what in ("loss", "grad_norm"))
log = pathlib.Path(out, "fallen/workers/worker-3.log").read_text(encoding="utf-8").splitlines()
run = pathlib.Path(out, "fallen.log").read_text(encoding="utf-8").splitlines()
print(json.dumps({"device": device, "steps": len(other), "exit": int(code), "same_bits": same, "worker": log[-12:],
                  "run": [line for line in run if "worker-3" in line]}, indent=1))
sys.exit(0 if same and code == "0" and any("fall: " in line for line in log) else 1)
PYTHON
