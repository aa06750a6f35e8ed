#!/usr/bin/env bash
# Trains TinyLlama's shape (bench/gpu/llama-1b.yaml) for a few steps: in one process, or as a pair of workers of one
# device, a stage each. Prints as JSON the tokens per second: the median over all steps but the first two.
# Usage: bench/gpu/llama.sh BIN_FOLDER TEXT OUT DEVICE train|pair STEPS BATCH Sync|Delayed [--set FIELD=VALUE ...]
#   SWARM_SPY=SECONDS   also what kept the device busy in the last SECONDS (spy.cc, busy.py)
set -euo pipefail
bin=$1 text=$2 out=$3 device=$4 how=$5 steps=$6 batch=$7 mode=$8
shift 8
here=$(cd "$(dirname "$0")" && pwd)
case $how in
  train) command=("$bin/swarmctl" train --device "$device") ;;
  pair) command=("$bin/swarmctl" run --devices "$device" --workers "0=1,1=1") ;;
  *) echo "llama.sh: $how is neither train nor pair" >&2; exit 2 ;;
esac
rm -rf "$out"
mkdir -p "$out"
sed "s|URI|$text|; s|BATCH|$batch|; s|MODE|$mode|" "$here/llama-1b.yaml" >"$out/job.yaml"
spy=${SWARM_SPY:-}
[ -z "$spy" ] || export CUDA_INJECTION64_PATH=$bin/../lib/libswarm_spy.so SWARM_SPY=$out/spy

setsid "${command[@]}" -f "$out/job.yaml" --out "$out/run" "$@" >"$out/log" 2>&1 &
program=$!
trap 'kill -KILL -- -$program 2>/dev/null || true' EXIT
count() { if [ -f "$out/run/steps.jsonl" ]; then wc -l <"$out/run/steps.jsonl"; else echo 0; fi; }
until [ "$(count)" -ge "$steps" ]; do
  sleep 0.2
  kill -0 $program 2>/dev/null && continue
  { tail -n 20 "$out/log"; tail -n 10 "$out"/run/workers/*.log; } >&2 || true
  exit 1
done
# The job ends here, without the checkpoint that it would write.
kill -KILL -- -$program
wait $program 2>/dev/null || true
trap - EXIT

unset LD_LIBRARY_PATH CUDA_INJECTION64_PATH
busy=null
[ -z "$spy" ] || busy=$(python3 "$here/busy.py" "$spy" "$out"/spy.*)
python3 - "$out/run/steps.jsonl" "$steps" "$busy" "$device" "$how" "$batch" "$mode" <<'PYTHON'
import json, statistics, sys
path, count, busy, device, how, batch, mode = sys.argv[1:]
with open(path, encoding="utf-8") as lines:
    steps = [json.loads(line) for line in lines.readlines()[:int(count)]]
rates = [step["tokens_per_second"] for step in steps]
print(json.dumps({"device": device, "how": how, "batch": int(batch), "mode": mode, "losses": [s["loss"] for s in steps],
                  "tokens_per_second_by_step": rates, "tokens_per_second": statistics.median(rates[2:]),
                  "busy": json.loads(busy)}, indent=1))
PYTHON
