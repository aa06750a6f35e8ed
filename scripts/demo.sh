#!/usr/bin/env bash
# Trains a small Llama on the King James Bible with a swarm of processes on this machine, and kills a worker
# and the trainer meanwhile. Then trains the same job in one undisturbed process, and prints both loss curves
# side by side and a sample from the model.
# Usage: scripts/demo.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build/release}/bin
mkdir -p out
if [ ! -s out/bible.txt ]; then
  # Debian's package bible-kjv prints the text; its first lines of each chapter name book and chapter.
  bible gen1:1-rev22:21 >out/bible.next
  mv out/bible.next out/bible.txt
fi
rm -rf out/demo out/demo-undisturbed
# Exact sums: neither the order of summation nor the departure of a worker changes a bit of the result.
job=(-f examples/tiny-llama.yaml --set training.maxSteps=200 --set training.accumulation=Exact)
echo "demo: 200 steps twice: about a minute on two cores, 200 MB in out/"
echo "Five workers in three stages. At step 60 one of stage 1 is killed, at step 120 the trainer."
"$bin/swarmctl" run "${job[@]}" --out out/demo \
  --chaos "kill any of stage 1 at step 60; kill trainer at step 120"
echo
echo "The same 200 steps in one process, undisturbed:"
"$bin/swarmctl" train "${job[@]}" --out out/demo-undisturbed --threads "$(nproc)"
echo
python3 scripts/compare_curves.py out/demo out/demo-undisturbed
echo
echo "A sample:"
"$bin/swarmctl" generate --from out/demo --prompt "In the beginning" --tokens 300
