#!/usr/bin/env bash
# Runs the tests of a preset, and names at the end which tests were skipped, why, and how to run them.
# Usage: scripts/test.sh PRESET [CTEST_ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
report=$PWD/build/$preset/tests.xml
rm -f "$report"
code=0
ctest --preset "$preset" --no-tests=error --test-output-size-passed 1000000 --output-junit "$report" "$@" || code=$?
[ ! -f "$report" ] || python3 scripts/left_out.py "$report" || true
exit $code
