#!/usr/bin/env bash
# Kills workers while their kernels run: four workers of one device, two a stage, train a small Llama for 15 steps with
# exact sums, once undisturbed, and once while two of them are killed (SIGKILL) in a backward. Prints as JSON what was
# killed, and whether all losses and norms have the same bits; ends with 0 if they do.
# Usage: bench/gpu/kill.sh BIN_FOLDER TEXT OUT DEVICE     (cuda:0; cpu to try the script)
set -euo pipefail
bin=$1 text=$2 out=$3 device=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$out"
mkdir -p "$out"
sed "s|URI|$text|; s|ACCUMULATION|Exact|" "$here/job.yaml" >"$out/job.yaml"
train() { # NAME flags...
  local name=$1
  shift
  "$bin/swarmctl" run -f "$out/job.yaml" --out "$out/$name" --devices "$device" --workers "0=2,1=2" \
    --threads-per-worker 1 --page none "$@" >"$out/$name.log" 2>&1 ||
    { tail -n 20 "$out/$name.log"; tail -n 10 "$out/$name"/workers/*.log; exit 1; } >&2
}
train undisturbed
train killed --chaos "kill worker-3 at backward of step 5; kill worker-0 at backward of step 9"

env -u LD_LIBRARY_PATH python3 - "$out" "$device" <<'PYTHON'
import json, sys
out, device = sys.argv[1:]
def lines(name):
    with open(f"{out}/{name}", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
undisturbed, other, faults = lines("undisturbed/steps.jsonl"), lines("killed/steps.jsonl"), lines("killed/chaos.jsonl")
same = all(a[what] == b[what] for a, b in zip(undisturbed, other, strict=True) for what in ("loss", "grad_norm"))
print(json.dumps({"device": device, "steps": len(other), "faults": faults, "same_bits": same,
                  "loss": other[-1]["loss"]}, indent=1))
sys.exit(0 if same and len(faults) == 2 else 1)
PYTHON
