#!/usr/bin/env bash
# Installs what SwarmJob needs to build: Debian packages by name, libtorch and Apache Arrow from the PyPI wheels by name
# and version, unpacked below the folder SWARM_DEPS (default: .deps in this repository), and Hugging Face's tokenizers,
# compiled there. It fetches packages and wheels at the same time. Idempotent: stamps with the versions make the second
# run quick.
#
#   SWARM_DEPS=DIR        the folder for the unpacked wheels
#   SWARM_LIBTORCH=DIR    use this existing libtorch (with include/ and lib/) and fetch none
#   SWARM_DEPS_TESTS=1    also install what only tests and benchmarks need: Prometheus, Chromium, and three Python
#                         environments: one with the S3 server of the storage tests and Hugging Face's tokenizers, one
#                         with what builds the site of the documentation, one with the schema of Grafana's dashboards
#   SWARM_DEPS_CUDA=1     also fetch what the preset cuda needs: NVIDIA's compiler, the headers of its libraries, and
#                         the CUDA half of libtorch, all below the folder cuda/; and patchelf
#   SWARM_DEPS_DIST=1     also install what makes the tarball of a release, and tries it
#   SWARM_DEPS_TOOLS=1    also install clang with its tools, and the network tools of bench/wan/verify.py
set -euo pipefail
cd "$(dirname "$0")/.."
deps=${SWARM_DEPS:-$PWD/.deps}
mkdir -p "$deps"

fetching=(ca-certificates python3 python3-pip unzip)  # the tools that fetch the wheels
debian=(
  "${fetching[@]}" g++ make cmake ninja-build ccache pkg-config protobuf-compiler-grpc
  libgrpc++-dev protobuf-compiler libprotobuf-dev libssl-dev
  nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libspdlog-dev prometheus-cpp-dev libcivetweb-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  libcpprest-dev libsentencepiece-dev libcurl4-openssl-dev libiperf-dev libisal-dev libxxhash-dev liblemon-dev
  liburing-dev zlib1g-dev libzstd-dev
  bible-kjv spin
)
# Debian's own rustc is too old; these are newer ones, which Debian keeps for browsers.
minor=$({ cargo --version 2>/dev/null || true; } | awk '{split($2, at, "."); print at[1] == 1 ? at[2] : 0}')
[ "${minor:-0}" -ge 85 ] || debian+=(cargo-web rustc-web)
tests=${SWARM_DEPS_TESTS:-0}
[ "$tests" = 1 ] && debian+=(chromium prometheus curl git fish haproxy iperf3 iproute2 nftables procps python3-venv
  sentencepiece zsh)
[ "${SWARM_DEPS_CUDA:-0}" = 1 ] && debian+=(patchelf)
[ "${SWARM_DEPS_DIST:-0}" = 1 ] && debian+=(binutils debootstrap patchelf)
[ "${SWARM_DEPS_TOOLS:-0}" = 1 ] && debian+=(clang-19 libclang-rt-19-dev clang-format-19 clang-tidy-19 iperf3 iputils-ping)
python=/usr/bin/python3
wheels="torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85"
arrow="pyarrow==26.0.1"
# The toolkit, of which each wheel has a part, and libtorch's other half.
cuda="nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85"
[ -f "${SWARM_LIBTORCH:-}/lib/libtorch_cuda.so" ] || cuda+=" torch==2.11.0"

# Prints the given packages that are not installed.
missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

install() {  # packages...
  local sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" >>"$deps/apt.log" 2>&1 ||
    { echo "deps: apt-get failed; the last lines of $deps/apt.log:" >&2; tail -n 20 "$deps/apt.log" >&2; exit 1; }
}

# Fetches one wheel and unpacks the named parts of it.
unpack_wheel() {  # folder to unpack to, requirement, unzip patterns...
  local to=$1 requirement=$2; shift 2
  local folder; folder=$(mktemp -d "$deps/wheel.XXXXXX")
  "$python" -m pip download --no-deps -q --disable-pip-version-check --no-cache-dir --only-binary=:all: \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform manylinux_2_18_x86_64 \
    -d "$folder" "$requirement"
  unzip -q -o "$folder"/*.whl "$@" -d "$to"
  rm -rf "$folder"
}

unpack_torch() {
  rm -rf "$deps/wheels"
  mkdir -p "$deps/wheels"
  unpack_wheel "$deps/wheels" torch==2.11.0 'torch/include/*' 'torch/share/*' 'torch/lib/libtorch_cpu.so' \
    'torch/lib/libc10.so' 'torch/lib/libtorch.so' 'torch/lib/libtorch_global_deps.so' 'torch/lib/libgomp*' \
    'torch/lib/libshm.so' 'torch-*.dist-info/licenses/*'
  unpack_wheel "$deps/wheels" nvidia-cuda-runtime==13.0.96 'nvidia/*'
  unpack_wheel "$deps/wheels" nvidia-cuda-cupti==13.0.85 'nvidia/*'
  echo "$wheels, licenses" >"$deps/wheels.stamp"
}

unpack_arrow() {
  rm -rf "$deps/arrow"
  mkdir -p "$deps/arrow"
  unpack_wheel "$deps/arrow" "$arrow" 'pyarrow/include/*' 'pyarrow/libarrow.so.*' 'pyarrow/libparquet.so.*' \
    'pyarrow-*.dist-info/licenses/*'
  echo "$arrow, licenses" >"$deps/arrow.stamp"
}

# The libraries of NVIDIA that libtorch_cuda.so loads, 2.7 GB, are not there: a link does without them
# (docs/gpu.md).
unpack_cuda() {
  local part
  rm -rf "$deps/cuda"
  mkdir -p "$deps/cuda"
  for part in $cuda; do
    case $part in
      torch==*) unpack_wheel "$deps/cuda" "$part" 'torch/lib/libtorch_cuda.so' 'torch/lib/libc10_cuda.so' ;;
      *) unpack_wheel "$deps/cuda" "$part" 'nvidia/*' ;;
    esac
  done
  chmod +x "$deps"/cuda/nvidia/cu13/{,nvvm/}bin/*
  ln -s lib "$deps/cuda/nvidia/cu13/lib64"  # where the compiler looks for its libraries
  echo "$cuda" >"$deps/cuda.stamp"
}

unpack_wheels() {  # unpack_torch, unpack_arrow, unpack_cuda
  local each
  rm -rf "$deps"/wheel.*
  for each in "$@"; do "$each"; done
}

mapfile -t packages < <(missing "${debian[@]}")
wanted=()
if [ -n "${SWARM_LIBTORCH:-}" ]; then
  [ -f "$SWARM_LIBTORCH/lib/libtorch_cpu.so" ] && [ -d "$SWARM_LIBTORCH/include" ] ||
    { echo "deps: SWARM_LIBTORCH=$SWARM_LIBTORCH has no lib/libtorch_cpu.so and include/" >&2; exit 1; }
elif [ "$(cat "$deps/wheels.stamp" 2>/dev/null)" != "$wheels, licenses" ]; then
  wanted+=(unpack_torch)
fi
[ "$(cat "$deps/arrow.stamp" 2>/dev/null)" = "$arrow, licenses" ] || wanted+=(unpack_arrow)
if [ "${SWARM_DEPS_CUDA:-0}" = 1 ] && [ "$(cat "$deps/cuda.stamp" 2>/dev/null)" != "$cuda" ]; then
  echo "deps: CUDA takes another 0.9 GB of disk"
  wanted+=(unpack_cuda)
fi
if [ ${#packages[@]} -gt 0 ] || [ ${#wanted[@]} -gt 0 ]; then
  echo "deps: about two minutes and 2 GB of disk on a new system, 0.8 GB of them in $deps"
fi

if [ ${#packages[@]} -gt 0 ]; then
  echo "deps: installing Debian packages: ${packages[*]}"
  : >"$deps/apt.log"
  sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  mapfile -t first < <(missing "${fetching[@]}")
  [ ${#wanted[@]} -eq 0 ] || [ ${#first[@]} -eq 0 ] || install "${first[@]}"
fi
fetcher=
if [ ${#wanted[@]} -gt 0 ]; then
  echo "deps: fetching wheels: ${wanted[*]#unpack_}"
  unpack_wheels "${wanted[@]}" &
  fetcher=$!
  # When apt fails, the script does not wait for the wheels.
  trap '[ -z "$fetcher" ] || kill "$fetcher" 2>/dev/null || true' EXIT
fi
[ ${#packages[@]} -eq 0 ] || install "${packages[@]}"
# It changes rarely, so it is compiled here, while the wheels come; a build finds it done (worker/data/CMakeLists.txt).
[ -f "$deps/cargo/release/libswarm_huggingface.so" ] || echo "deps: compiling Hugging Face's tokenizers, about a minute"
cargo build --quiet --release --locked --manifest-path worker/data/huggingface/Cargo.toml --target-dir "$deps/cargo"
if [ -n "$fetcher" ]; then
  wait "$fetcher" || { fetcher=; echo "deps: the wheels could not be fetched" >&2; exit 1; }
  fetcher=
fi

tools="moto[s3,server]==5.2.5 tokenizers==0.23.1"
if [ "$tests" = 1 ] && [ "$(cat "$deps/python.stamp" 2>/dev/null)" != "$tools" ]; then
  echo "deps: installing $tools"
  "$python" -m venv --clear "$deps/python"
  # The second alone: what it depends on is there to download models.
  "$deps/python/bin/pip" install -q --disable-pip-version-check "${tools% *}"
  "$deps/python/bin/pip" install -q --disable-pip-version-check --no-deps "${tools#* }"
  echo "$tools" >"$deps/python.stamp"
fi
[ "$tests" = 0 ] || scripts/site/setup.sh >/dev/null
# Its epoch counts releases of the package; what follows is the version of Grafana.
[ "$tests" = 0 ] || scripts/venv.sh grafana 'grafana-foundation-sdk==1769699379!11.6.0' >/dev/null
# Without npm, the test that needs it is skipped.
if [ "$tests" = 1 ] && command -v npm >/dev/null && [ ! -f "$deps/axe/axe.min.js" ]; then
  tests/page/fetch_axe.sh "$deps/axe"
fi
echo "deps: complete in $deps"
