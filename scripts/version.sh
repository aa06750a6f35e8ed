#!/usr/bin/env bash
# Prints the version of the project. Its one place is the line `project(` of CMakeLists.txt.
set -euo pipefail
sed -n 's/^project(swarmjob VERSION \([0-9.]*\) .*/\1/p' "$(dirname "$0")/../CMakeLists.txt" | grep .
