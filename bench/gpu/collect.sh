#!/usr/bin/env bash
# Collects programs, tests and benchmarks of the preset cuda for a machine with a GPU, where nothing is built or
# installed: bench/gpu/run.sh there runs them. With them go the libraries that they load, but those of libtorch, CUDA,
# the compiler and the C library, which such a machine has.
# Usage: bench/gpu/collect.sh BUILD_FOLDER OUT
set -euo pipefail
build=$1 out=$2
limit=70  # MiB; packed with xz it is a third of that
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
programs=(bin/swarm-worker bin/swarmctl tests/cuda_bodies_test tests/cuda_kernels_test
  tests/cuda_stage_test bench/cuda_kernels_bench)
# No modules: the jobs read plain text, byte by byte.
modules=(lib/libswarm_spy.so lib/libswarm_fall.so)
parts=(lib/swarmctl-compute)  # as which swarmctl goes on where a command computes

theirs='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|gomp|torch.*|c10.*|cud.*|cu[a-z]+|nv.*|nccl))\.so'
here=$(realpath "$(dirname "$0")")
(cd "$build" && "$here/../../scripts/loaded_libraries.sh" "$theirs" "${programs[@]}" "${modules[@]}" "${parts[@]}") | while read -r path; do
  strip --strip-unneeded -o "$out/lib/$(basename "$path")" "$(readlink -f "$path")"
done
for file in "${programs[@]}"; do strip -o "$out/bin/$(basename "$file")" "$build/$file"; done
for file in "${modules[@]}" "${parts[@]}"; do strip --strip-unneeded -o "$out/lib/$(basename "$file")" "$build/$file"; done
for file in "$out"/bin/* "${parts[@]/#/$out/}"; do patchelf --remove-rpath "$file"; done
cp "$here"/*.sh "$here"/*.yaml "$here"/*.py "$out"
cat "$here"/../../docs/*.md >"$out/text.txt"

size=$(du -sm "$out" | cut -f1)
[ "$size" -le $limit ] || { echo "gpu-bundle: $out has $size MiB, more than $limit: leave something out" >&2; exit 1; }
echo "gpu-bundle: $size MiB in $out; on a machine with a GPU: $out/run.sh RESULTS"
