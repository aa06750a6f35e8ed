#!/usr/bin/env bash
# Installs what SwarmJob is built from: Debian packages by name, and libtorch from the PyPI wheel by
# name and version, unpacked below the folder SWARM_DEPS (default: .deps in this repository), beside a
# Python environment with the S3 server of the tests.
# Idempotent: a stamp that names the versions makes the second run quick.
#
#   SWARM_DEPS=DIR        where the wheels are unpacked
#   SWARM_LIBTORCH=DIR    use a libtorch that is already there (it has include/ and lib/); none is fetched
set -euo pipefail
cd "$(dirname "$0")/.."
deps=${SWARM_DEPS:-$PWD/.deps}
mkdir -p "$deps"

debian=(
  build-essential cmake ninja-build ccache pkg-config git curl unzip ca-certificates make
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libssl-dev
  nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libspdlog-dev prometheus-cpp-dev libcivetweb-dev
  prometheus
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  libcpprest-dev libsentencepiece-dev sentencepiece libcurl4-openssl-dev libisal-dev libxxhash-dev
  bible-kjv iproute2 spin python3 python3-pip python3-venv
)
[ "${SWARM_DEPS_TOOLS:-0}" = 1 ] && debian+=(clang-19 libclang-rt-19-dev clang-format-19 clang-tidy-19 iperf3 iputils-ping)

missing=()
for package in "${debian[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "deps: installing Debian packages: ${missing[*]}"
  sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
  # The monitoring daemon comes for its promtool; keep its service from being started.
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$deps/apt.log" 2>&1 ||
    { echo "deps: apt-get failed; the last lines of $deps/apt.log:" >&2; tail -n 20 "$deps/apt.log" >&2; exit 1; }
fi

# Fetches one wheel and unpacks the named parts of it into $deps/wheels.
unpack_wheel() {  # requirement, unzip patterns...
  local requirement=$1; shift
  local folder; folder=$(mktemp -d "$deps/wheel.XXXXXX")
  echo "deps: fetching $requirement"
  "$python" -m pip download --no-deps -q --disable-pip-version-check --only-binary=:all: \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform manylinux_2_18_x86_64 \
    -d "$folder" "$requirement"
  mkdir -p "$deps/wheels"
  unzip -q -o "$folder"/*.whl "$@" -d "$deps/wheels"
  rm -rf "$folder"
}

python=/usr/bin/python3
wheels="torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85"
if [ -n "${SWARM_LIBTORCH:-}" ]; then
  [ -f "$SWARM_LIBTORCH/lib/libtorch_cpu.so" ] && [ -d "$SWARM_LIBTORCH/include" ] ||
    { echo "deps: SWARM_LIBTORCH=$SWARM_LIBTORCH has no lib/libtorch_cpu.so and include/" >&2; exit 1; }
elif [ "$(cat "$deps/wheels.stamp" 2>/dev/null)" != "$wheels" ]; then
  rm -rf "$deps/wheels"
  unpack_wheel torch==2.11.0 'torch/include/*' 'torch/share/*' 'torch/lib/libtorch_cpu.so' \
    'torch/lib/libc10.so' 'torch/lib/libtorch.so' 'torch/lib/libtorch_global_deps.so' 'torch/lib/libgomp*' \
    'torch/lib/libshm.so'
  unpack_wheel nvidia-cuda-runtime==13.0.96 'nvidia/*'
  unpack_wheel nvidia-cuda-cupti==13.0.85 'nvidia/*'
  echo "$wheels" >"$deps/wheels.stamp"
fi

# The S3 server that the storage tests talk to, in an environment of its own.
wanted="moto[s3,server]==5.2.5"
if [ "$(cat "$deps/python.stamp" 2>/dev/null)" != "$wanted" ]; then
  echo "deps: installing $wanted"
  "$python" -m venv --clear "$deps/python"
  "$deps/python/bin/pip" install -q --disable-pip-version-check "$wanted"
  echo "$wanted" >"$deps/python.stamp"
fi
echo "deps: complete in $deps"
