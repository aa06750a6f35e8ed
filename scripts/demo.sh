#!/usr/bin/env bash
# Trains a small Llama on the King James Bible with a swarm of processes on this machine, then prints a
# sample of what it would write. Usage: scripts/demo.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build/release}/bin
mkdir -p out
if [ ! -s out/bible.txt ]; then
  # Debian's package bible-kjv prints the text; its first lines of each chapter name book and chapter.
  bible gen1:1-rev22:21 >out/bible.next
  mv out/bible.next out/bible.txt
fi
rm -rf out/demo
"$bin/swarmctl" run -f examples/tiny-llama.yaml --out out/demo
echo
echo "A sample:"
"$bin/swarmctl" generate --from out/demo --prompt "In the beginning" --tokens 300
