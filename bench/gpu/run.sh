#!/usr/bin/env bash
# Runs tests and benchmarks on a machine with a GPU that has its driver and Python with PyTorch 2.11 for CUDA 13;
# `make gpu-bundle` made the folder in which this lies. Needs no network, and writes only below RESULTS:
#   summary.json    the machine, and of each part its exit code and seconds
#   PART.json       results: of GoogleTest, of Google Benchmark, or of swarm.sh
#   PART.log        what the part printed
# Usage: run.sh RESULTS [PART...]     all parts if none is named:
#   start bodies kernels stage rates swarm exact kill fall sanitizer train pair swap torch compiled
# SWARM_SWAP_HOST=30Gi  what the part swap may use of the memory of the host (40Gi)
# Ends with 0 if all parts did. A part is stopped after 8 minutes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=${1:?usage: run.sh RESULTS [PART...]}
shift
[ $# -gt 0 ] || set -- start bodies kernels stage rates swarm exact kill fall sanitizer train pair swap torch compiled
mkdir -p "$results"
results=$(cd "$results" && pwd)

packages=$(python3 -c 'import importlib.util as u, os; s = u.find_spec("torch"); print(os.path.dirname(s.submodule_search_locations[0]) if s else "")')
[ -n "$packages" ] || { echo "run: python3 has no PyTorch; put one that has first into PATH" >&2; exit 2; }
# Ours first; then libtorch, and NVIDIA's libraries where PyTorch has brought its own.
paths=$here/lib:$packages/torch/lib
for folder in "$packages"/nvidia/*/lib; do [ ! -d "$folder" ] || paths+=:$folder; done
paths+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

run_part() { # part
  local json=$results/$1.json
  case $1 in
    start) "$here/bin/swarm-worker" --version && "$here/bin/swarmctl" --version ;;
    bodies) "$here/bin/cuda_bodies_test" --gtest_brief=1 "--gtest_output=json:$json" ;;
    # A skipped test is no result here.
    kernels) "$here/bin/cuda_kernels_test" "--gtest_output=json:$json" && ! grep -q '"result": "SKIPPED"' "$json" ;;
    stage) "$here/bin/cuda_stage_test" "--gtest_output=json:$json" && ! grep -q '"result": "SKIPPED"' "$json" ;;
    rates) "$here/bin/cuda_kernels_bench" --benchmark_repetitions=3 --benchmark_out_format=json "--benchmark_out=$json" ;;
    swarm) "$here/swarm.sh" "$here/bin" "$here/text.txt" "$results/swarm" cuda:0 >"$json" ;;
    exact) "$here/swarm.sh" "$here/bin" "$here/text.txt" "$results/exact" cuda:0 Exact >"$json" ;;
    kill) "$here/kill.sh" "$here/bin" "$here/text.txt" "$results/kill" cuda:0 >"$json" ;;
    fall) "$here/fall.sh" "$here/bin" "$here/text.txt" "$results/fall" cuda:0 >"$json" ;;
    sanitizer) compute-sanitizer --error-exitcode 9 "$here/bin/cuda_kernels_test" --gtest_brief=1 ;;
    train) SWARM_SPY=4 "$here/llama.sh" "$here/bin" "$here/text.txt" "$results/train" cuda:0 train 6 64 Sync >"$json" ;;
    pair) SWARM_SPY=4 "$here/llama.sh" "$here/bin" "$here/text.txt" "$results/pair" cuda:0 pair 9 64 Delayed >"$json" ;;
    swap) "$here/llama.sh" "$here/bin" "$here/text.txt" "$results/swap" cuda:0 train 4 64 Sync \
      --set pipeline.stages=1 --set pipeline.boundary.codec=None --set pipeline.residency=Swap \
      --set pipeline.memory.host="${SWARM_SWAP_HOST:-40Gi}" --set pipeline.inFlightMax=16 >"$json" ;;
    torch) env -u LD_LIBRARY_PATH python3 "$here/torch_llama.py" >"$json" ;;
    compiled) env -u LD_LIBRARY_PATH python3 "$here/torch_llama.py" --compile >"$json" ;;
    *) echo "run: there is no part $1" && return 2 ;;
  esac
}
export -f run_part
export here results

entries=() failed=0
for part in "$@"; do
  printf 'run: %s\n' "$part"
  begin=$(date +%s) code=0
  LD_LIBRARY_PATH=$paths timeout 480 bash -c 'run_part "$1"' run_part "$part" >"$results/$part.log" 2>&1 || code=$?
  entries+=("$part $code $(($(date +%s) - begin))")
  [ $code = 0 ] || { failed=1; printf 'run: %s ended with %d:\n' "$part" $code; tail -n 20 "$results/$part.log"; }
done

gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || true)
python3 - "$results/summary.json" "$gpu" "${entries[@]}" <<'PYTHON'
import importlib.metadata, json, os, platform, sys
path, gpu, *entries = sys.argv[1:]
parts = {name: {"exit": int(code), "seconds": int(seconds)} for name, code, seconds in map(str.split, entries)}
summary = {"gpus": gpu.splitlines(), "torch": importlib.metadata.version("torch"), "libc": " ".join(platform.libc_ver()),
           "cores": os.cpu_count(), "parts": parts}
with open(path, "w", encoding="utf-8") as out:
    json.dump(summary, out, indent=1)
print(json.dumps(summary, indent=1))
PYTHON
exit $failed
