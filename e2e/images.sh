#!/usr/bin/env bash
# Builds the images of operator and worker, and the base and the pause image under them, without a
# container engine and without compiling again what `make build` has built:
#   e2e/images.sh BUILD_FOLDER OUT [cpu|cuda]   writes OUT/{operator,worker,pause}.tar, and of operator and worker
#                                               OUT/NAME.tag and the bill of materials OUT/NAME.cdx.json;
#                                               with WITH_GATEWAY=1 OUT/gateway.tar, and with WITH_TENANT=1
#                                               OUT/tenant.tar, too; where e2e/build.sh has built
#                                               kube-rbac-proxy, OUT/proxy.tar
# cuda: BUILD_FOLDER is the preset's, and SWARM_LIBTORCH the folder torch/ of an installed wheel of PyTorch, with its
# dependencies beside it.
# Base image and layers are kept in kube/store below SWARM_DEPS, so the next time takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$2 kind=${3:-cpu}
deps=${SWARM_DEPS:-$PWD/.deps}
libtorch=${SWARM_LIBTORCH:-$deps/wheels/torch}
store=$deps/kube/store
base=localhost/swarmjob-base:bookworm
mkdir -p "$store" "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

in_store() { buildah --root "$store/root" --runroot "$work/run" --storage-driver overlay "$@"; }

# Debian's minimal system from Debian's packages, where this machine is set up to get them.
make_base() {
  in_store inspect --type image "$base" >/dev/null 2>&1 && return
  echo "e2e: making the base image"
  local sources=/etc/apt/sources.list.d/debian.sources
  [ -f "$sources" ] || sources=/etc/apt/sources.list
  mkdir "$work/base"
  debootstrap --variant=minbase bookworm "$work/root" "$(scripts/debian_mirror.sh)" >"$work/debootstrap.log" ||
    { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
  : >"$work/root/etc/apt/sources.list"
  cp "$sources" "$work/root${sources}"
  rm -rf "$work"/root/var/lib/apt/lists/* "$work"/root/var/cache/apt/*.bin "$work"/root/var/cache/apt/archives/*.deb \
    "$work"/root/usr/share/{doc,man,info,locale}/* "$work"/root/var/log/*.log
  tar -C "$work/root" -cf "$work/base/root.tar" .
  printf 'FROM scratch\nADD root.tar /\n' >"$work/base/Dockerfile"
  in_store bud -q --isolation chroot -t "$base" "$work/base" >/dev/null
  rm -rf "$work/root" "$work/base"
}

make_pause() {
  [ -f "$out/pause.tar" ] && return
  mkdir "$work/pause"
  printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' >"$work/pause/pause.c"
  cc -static -O2 -o "$work/pause/pause" "$work/pause/pause.c"
  printf 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n' >"$work/pause/Dockerfile"
  in_store bud -q --isolation chroot -t localhost/pause:1 "$work/pause" >/dev/null
  save pause localhost/pause:1
}

# Where cases of several clusters are played.
make_gateway() {
  [ -f "$out/gateway.tar" ] && return
  echo "e2e: building the image of the gateway"
  in_store bud -q --isolation chroot --build-arg "BASE=$base" -t localhost/gateway:1 e2e/gateway >"$work/gateway.log" 2>&1 ||
    { tail -n 30 "$work/gateway.log" >&2; exit 1; }
  save gateway localhost/gateway:1
}

# Of a tenant whose programs are not what they should be.
make_tenant() {
  [ ! -f "$out/tenant.tar" ] || [ -n "$(find e2e/tenant proto -newer "$out/tenant.tar")" ] || return 0
  echo "e2e: building the image of a tenant"
  mkdir "$work/tenant"
  cp -r e2e/tenant/. proto "$work/tenant/"
  in_store bud -q --isolation chroot --layers --build-arg "BASE=$base" -t localhost/tenant:1 "$work/tenant" \
    >"$work/tenant.log" 2>&1 || { tail -n 30 "$work/tenant.log" >&2; exit 1; }
  save tenant localhost/tenant:1
}

# Of the proxy before the operator's metrics, where e2e/build.sh has built its program.
make_proxy() {
  local program=$deps/kube/kube-rbac-proxy
  [ -x "$program" ] || return 0
  [ ! "$out/proxy.tar" -nt "$program" ] || return 0
  echo "e2e: building the image of kube-rbac-proxy"
  mkdir "$work/proxy"
  cp "$program" "$work/proxy/"
  printf 'FROM scratch\nCOPY kube-rbac-proxy /\nUSER 65532\nENTRYPOINT ["/kube-rbac-proxy"]\n' >"$work/proxy/Dockerfile"
  in_store bud -q --isolation chroot -t localhost/kube-rbac-proxy:1 "$work/proxy" >/dev/null
  save proxy localhost/kube-rbac-proxy:1
}

save() { # name, image
  rm -f "$out/$1.tar"
  in_store push -q "$2" "docker-archive:$out/$1.tar:$2" >/dev/null
}

# What is in the image, from its own list of packages.
list_materials() { # name, image, what scripts/dist/sbom.py calls it
  local container mounted
  container=$(in_store from "$2")
  mounted=$(in_store mount "$container")
  cp "$mounted/var/lib/dpkg/status" "$work/$1.status"
  in_store rm "$container" >/dev/null
  scripts/dist/sbom.py "$3" "$work/$1.status" "$libtorch" "$out/$1.cdx.json"
}

# The content of an image gives it its name, so it is built and unpacked again only when the content
# has changed.
make_image() { # name, dockerfile, target, context
  local name=$1 dockerfile=$2 target=$3 context=$4 digest tag revision
  revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  digest=$( (cat "$dockerfile"; cd "$context" && find . -type f -print0 | sort -z | xargs -0 sha256sum) | sha256sum | head -c 12)
  tag=localhost/swarmjob-$name:$digest
  if [ "$(cat "$out/$name.tag" 2>/dev/null)" != "$tag" ] || [ ! -f "$out/$name.tar" ] ||
    [ ! -f "$out/$name.cdx.json" ]; then
    echo "e2e: building the image of the $name"
    in_store bud -q --isolation chroot --layers --build-arg "BASE=$base" --build-arg "REVISION=$revision" \
      ${target:+--target "$target"} -f "$dockerfile" -t "$tag" "$context" \
      >"$work/$name.log" 2>&1 || { tail -n 30 "$work/$name.log" >&2; exit 1; }
    save "$name" "$tag"
    list_materials "$name" "$tag" "${target:-operator}"
    [ ! -f "$out/$name.tag" ] || in_store rmi -f "$(cat "$out/$name.tag")" >/dev/null 2>&1 || true
    in_store rmi --prune >/dev/null 2>&1 || true
    echo "$tag" >"$out/$name.tag"
  fi
}

make_base
make_pause
make_proxy
[ -z "${WITH_GATEWAY:-}" ] || make_gateway
[ -z "${WITH_TENANT:-}" ] || make_tenant
worker/image/collect.sh "$kind" "$build" "$libtorch" "$work/worker/image/$kind"
make_image worker worker/Dockerfile "$kind" "$work/worker"
if [ -x "$build/bin/swarm-operator" ]; then
  install -D -s "$build/bin/swarm-operator" "$work/operator/image/operator/usr/local/bin/swarm-operator"
  make_image operator operator/Dockerfile "" "$work/operator"
fi
