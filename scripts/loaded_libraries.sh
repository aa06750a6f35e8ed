#!/usr/bin/env bash
# Prints the paths of the shared libraries that the given files load, directly or through others, but those whose
# names match PATTERN, an extended regular expression:
#   scripts/loaded_libraries.sh PATTERN FILE...
set -euo pipefail
pattern=$1
shift
ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r path; do
  [[ $(basename "$path") =~ $pattern ]] || echo "$path"
done
