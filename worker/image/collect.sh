#!/usr/bin/env bash
# Collects what the worker's image holds of ours into a folder that is copied over its root:
#   worker/image/collect.sh cpu|cuda BUILD_FOLDER LIBTORCH OUT
# cpu: libtorch's CPU half, stripped, without NVIDIA's libraries. cuda: both halves, and the libraries
# of the folder nvidia/ beside LIBTORCH, as the wheels lay them out. Apache Arrow comes from where the module
# in BUILD_FOLDER finds it.
set -euo pipefail
kind=$1 build=$2 libtorch=$3 out=$4
here=$(dirname "$0")
libraries=$out/usr/local/lib/swarmjob
mkdir -p "$out/usr/local/bin" "$out/etc/ld.so.conf.d" "$libraries"

strip -o "$out/usr/local/bin/swarm-worker" "$build/bin/swarm-worker"
patchelf --remove-rpath "$out/usr/local/bin/swarm-worker"
for module in libswarm_sentencepiece.so libswarm_huggingface.so libswarm_parquet.so libswarm_buckets.so; do
  strip -o "$out/usr/local/lib/$module" "$build/lib/$module"
done
arrow=$(patchelf --print-rpath "$build/lib/libswarm_parquet.so" | tr : '\n' |
  while read -r folder; do [ ! -f "$folder/libarrow.so.2600" ] || echo "$folder"; done)
for module in libswarm_parquet.so libswarm_buckets.so; do
  patchelf --set-rpath "\$ORIGIN/swarmjob" "$out/usr/local/lib/$module"
done
for library in libarrow.so.2600 libparquet.so.2600; do
  strip --strip-unneeded -o "$libraries/$library" "$arrow/$library"
done

# A library with the symbols and the version by which libtorch_cpu.so wants NAME.
make_stub() { # NAME, macro
  local name=$1 macro=$2 missing
  printf '%s { global: *; };\n' "$name" >"$libraries/$name.map"
  cc -shared -fPIC -O2 -D"$macro" -Wl,-soname,"$name" -Wl,--version-script="$libraries/$name.map" \
    -o "$libraries/$name" "$here/no_cuda.c"
  strip "$libraries/$name"
  rm "$libraries/$name.map"
  missing=$(comm -23 \
    <(nm -D --undefined-only "$libtorch/lib/libtorch_cpu.so" | awk '{print $2}' | grep "@$name\$" | sed 's/@.*//' | sort -u) \
    <(nm -D --defined-only "$libraries/$name" | awk '{print $3}' | sed 's/@.*//' | sort -u))
  [ -z "$missing" ] || { echo "collect: worker/image/no_cuda.c lacks what libtorch wants of $name: $missing" >&2; exit 1; }
}

case $kind in
  cpu)
    for library in libtorch_cpu.so libc10.so libgomp.so.1; do
      strip --strip-unneeded -o "$libraries/$library" "$libtorch/lib/$library"
    done
    make_stub libcudart.so.13 SWARM_CUDART
    make_stub libcupti.so.13 SWARM_CUPTI
    echo /usr/local/lib/swarmjob >"$out/etc/ld.so.conf.d/swarmjob.conf"
    ;;
  cuda)
    mkdir -p "$libraries/torch/lib"
    cp -a "$libtorch"/lib/*.so* "$libraries/torch/lib/"
    rm "$libraries/torch/lib/libtorch_python.so"
    libraries=$(realpath "$libraries") # NVIDIA's are found through paths in libtorch's
    (cd "$libtorch/.." && find nvidia -name '*.so*' -exec cp -a --parents -t "$libraries" {} +)
    printf '/usr/local/lib/swarmjob/%s\n' torch/lib nvidia/cu13/lib >"$out/etc/ld.so.conf.d/swarmjob.conf"
    ;;
  *)
    echo "collect: cpu or cuda, not $kind" >&2
    exit 2
    ;;
esac
