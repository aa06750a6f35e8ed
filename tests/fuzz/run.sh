#!/usr/bin/env bash
# Runs each fuzz target for a while, two or more at a time, from the corpora in tests/fuzz/corpus.
# Usage: tests/fuzz/run.sh [SECONDS=60] [BUILD_FOLDER=build/fuzz]
# What breaks a target is left in BUILD_FOLDER/findings; `fuzz_NAME FILE` shows it again. A fixed
# finding goes into tests/fuzz/corpus/NAME, so that it stays fixed.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
build=${2:-build/fuzz}
findings=$build/findings
mkdir -p "$findings"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fuzz() { # target
  local name=${1##*/fuzz_}
  local dictionary=tests/fuzz/$name.dict
  mkdir -p "$scratch/$name"
  if "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -close_fd_mask=0 \
    $([ ! -e "$dictionary" ] || echo "-dict=$dictionary") \
    -artifact_prefix="$findings/$name-" "$scratch/$name" "tests/fuzz/corpus/$name" >"$scratch/$name.log" 2>&1; then
    printf 'fuzz: %-20s %s inputs, %s new for the corpus\n' "$name" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/$name.log")" \
      "$(find "$scratch/$name" -type f | wc -l)"
  else
    echo "fuzz: $name is broken:" >&2
    tail -n 60 "$scratch/$name.log" >&2
    return 1
  fi
}
export -f fuzz
export seconds findings scratch

find "$build/fuzz" -name 'fuzz_*' -type f -perm -u+x | sort | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
