#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster into the folder kube/ below SWARM_DEPS (default: .deps in
# this repository), from Go modules by name and version; containerd, runc and the CNI plugins come from
# Debian. About five minutes on two cores the first time; a stamp that names the versions makes the
# second run quick.
#
#   SWARM_DEPS=DIR        where kube/ is made
#   SWARM_KUBERNETES=31.13 e2e/build.sh
#                         Kubernetes of another version, here 1.31.13, into kube-1.31/ beside it, which the variable
#                         SWARM_KUBERNETES_BINARIES names to e2e/run.py and to the tests of API servers
#   e2e/build.sh --kwok   also builds kwok, for the scale bench and the case `thousand_identities`
#   e2e/build.sh --kueue  also builds Kueue's controller, for the cases `kueue` and `multikueue`
#   e2e/build.sh --jobset also builds kwok and JobSet's controller, for the scale bench
#   e2e/build.sh --rbac-proxy
#                         also builds kube-rbac-proxy, for the case `metrics_need_a_token`
# Several of these may be given. e2e/run.py gives those that its cases need.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=${SWARM_DEPS:-$PWD/.deps}
kubernetes=${SWARM_KUBERNETES:-36.3} # v1.36.3; the libraries beside it are v0.36.3
out=$deps/kube
[ -z "${SWARM_KUBERNETES:-}" ] || out=$deps/kube-1.${kubernetes%%.*}
mkdir -p "$out"

etcd=v3.6.8
coredns=v1.12.4
helm=v3.20.2
kwok=v0.7.0
kueue=v0.17.0
jobset=v0.12.0
rbac_proxy=v0.19.1

need() { # command, Debian package
  command -v "$1" >/dev/null || [ -e "$1" ] || missing+=("$2")
}
missing=()
need containerd containerd
need runc runc
need /usr/lib/cni/ptp containernetworking-plugins
need ip iproute2
need nft nftables
need conntrack conntrack
need openssl openssl
need buildah buildah
need debootstrap debootstrap
need patchelf patchelf
if [ ${#missing[@]} -gt 0 ]; then
  echo "e2e: installing Debian packages: ${missing[*]}"
  sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$out/apt.log" 2>&1 ||
    { echo "e2e: apt-get failed; the last lines of $out/apt.log:" >&2; tail -n 20 "$out/apt.log" >&2; exit 1; }
fi

# Whether the tool of that name and version has to be built.
wanting() { # name, version
  [ ! -x "$out/$1" ] || [ "$(cat "$out/$1.stamp" 2>/dev/null)" != "$2" ]
}
built() { # name, version
  echo "$2" >"$out/$1.stamp"
}
require_go() {
  command -v go >/dev/null || {
    echo "e2e: Go 1.25 or newer is needed to build Kubernetes; install it, or give KUBECONFIG=FILE of a cluster" >&2
    exit 1
  }
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0

# Kubernetes' main module replaces its libraries by folders of its own, so `go install` refuses it: a
# module of this script names those folders instead.
staging="api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
  cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api cri-client
  cri-streaming csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms
  kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils
  pod-security-admission sample-apiserver sample-cli-plugin sample-controller streaming"
programs="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl"

# A library of the wanted patch release. Of another version than the usual one also the newest before it that can be had,
# for they differ by fixes, and nothing for a library that this minor version does not have.
version_of() { # library
  local minor=${kubernetes%%.*} patch=${kubernetes#*.}
  [ -n "${SWARM_KUBERNETES:-}" ] || { echo "v0.$kubernetes"; return; }
  for ((; patch >= 0; --patch)); do
    if go mod download "k8s.io/$1@v0.$minor.$patch" >/dev/null 2>&1; then
      echo "v0.$minor.$patch"
      return
    fi
  done
}

make_kubernetes_module() {
  local library program version
  mkdir -p "$work/kubernetes"
  {
    printf 'module kube\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.%s\n\nreplace (\n' "$kubernetes"
    for library in $staging; do
      version=$(version_of "$library")
      [ -z "$version" ] || printf '\tk8s.io/%s => k8s.io/%s %s\n' "$library" "$library" "$version"
    done
    echo ')'
  } >"$work/kubernetes/go.mod"
  {
    printf '//go:build tools\n\npackage tools\n\nimport (\n'
    for program in $programs; do printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "$program"; done
    echo ')'
  } >"$work/kubernetes/tools.go"
  (cd "$work/kubernetes" && go mod tidy >"$out/go.log" 2>&1) || { tail -n 20 "$out/go.log" >&2; exit 1; }
}

build_kubernetes() {
  local program version="k8s.io/component-base/version"
  for program in $programs; do
    wanting "$program" "v1.$kubernetes" || continue
    require_go
    [ -d "$work/kubernetes" ] || make_kubernetes_module
    echo "e2e: building $program v1.$kubernetes"
    (cd "$work/kubernetes" && nice go build -trimpath -o "$out/" -ldflags \
      "-s -w -X $version.gitVersion=v1.$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${kubernetes%%.*}" \
      "k8s.io/kubernetes/cmd/$program")
    built "$program" "v1.$kubernetes"
  done
}

build_within() { # name, package, its module, version: for one that `go install` refuses, by a module of this script
  wanting "$1" "$4" || return 0
  require_go
  echo "e2e: building $1 $4"
  mkdir "$work/$1"
  (
    cd "$work/$1"
    printf 'module %s\n\ngo 1.26.0\n\nrequire %s %s\n' "$1" "$3" "$4" >go.mod
    printf '//go:build tools\n\npackage tools\n\nimport _ "%s"\n' "$2" >tools.go
    go mod tidy 2>"$out/go.log" || { tail -n 20 "$out/go.log" >&2; exit 1; }
    nice go build -trimpath -ldflags "-s -w" -o "$out/$1" "$2"
  )
  built "$1" "$4"
}

build_tool() { # name, package, version, further flags of the linker
  wanting "$1" "$3" || return 0
  require_go
  echo "e2e: building $1 $3"
  GOBIN=$out nice go install -trimpath -ldflags "-s -w ${4:-}" "$2@$3"
  built "$1" "$3"
}

build_kubernetes
if [ "$out" != "$deps/kube" ]; then # all else is that of the usual one
  for tool in etcd coredns helm; do
    [ -x "$deps/kube/$tool" ] || { echo "e2e: run e2e/build.sh without SWARM_KUBERNETES first" >&2; exit 1; }
    ln -sf "../kube/$tool" "$out/$tool"
  done
  exit
fi
# Its program is the main package at the root of a module of its own.
build_within etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3 $etcd
build_tool coredns github.com/coredns/coredns $coredns
# The Kubernetes version that helm assumes when it has no cluster to ask.
capabilities=helm.sh/helm/v3/pkg/chartutil
build_tool helm helm.sh/helm/v3/cmd/helm $helm \
  "-X $capabilities.k8sVersionMajor=1 -X $capabilities.k8sVersionMinor=${kubernetes%%.*}"

keep_kinds() { # name, module, version: the definitions of the kinds of a controller, which its module has
  [ "$(cat "$out/$1-crds.stamp" 2>/dev/null)" != "$3" ] || return 0
  require_go
  local module
  module=$(go mod download -json "$2@$3" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
  rm -rf "$out/$1-crds"
  mkdir "$out/$1-crds"
  cp "$module"/config/components/crd/bases/*.yaml "$out/$1-crds/"
  chmod -R u+w "$out/$1-crds"
  echo "$3" >"$out/$1-crds.stamp"
}

for flag; do
  case $flag in
    --kwok | --jobset) build_tool kwok sigs.k8s.io/kwok/cmd/kwok $kwok ;;&
    --jobset)
      build_within jobset sigs.k8s.io/jobset sigs.k8s.io/jobset $jobset
      keep_kinds jobset sigs.k8s.io/jobset $jobset
      ;;
    --kueue)
      build_tool kueue sigs.k8s.io/kueue/cmd/kueue $kueue
      keep_kinds kueue sigs.k8s.io/kueue $kueue
      ;;
    --rbac-proxy)
      module=github.com/brancz/kube-rbac-proxy
      build_within kube-rbac-proxy $module/cmd/kube-rbac-proxy $module $rbac_proxy
      ;;
  esac
done
