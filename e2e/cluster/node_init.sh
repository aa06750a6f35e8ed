#!/usr/bin/env bash
# The first process of a node's machine, in namespaces that node.py has made: joins the node's control
# group, waits for the cable, and starts containerd, the kubelet and kube-proxy. When it is killed, the
# kernel ends every process of the machine at once.
#   node_init.sh FOLDER CGROUP ADDRESS/BITS[,...] GATEWAY[,...] BINARIES
set -euo pipefail
folder=$1 cgroup=$2 binaries=$5
IFS=, read -ra addresses <<<"$3" # one of each family
IFS=, read -ra gateways <<<"$4"

for hierarchy in freezer cpu .; do # cgroup v1, v1, v2
  procs=/sys/fs/cgroup/$hierarchy/$cgroup/machine/cgroup.procs
  [ ! -e "$procs" ] || echo $$ >"$procs"
done

# What the machine's programs keep at fixed places is the machine's own.
mount --make-rprivate /
for place in /run /var/lib /var/log; do mount -t tmpfs tmpfs "$place"; done
mkdir -p /run/netns /var/lib/kubelet /var/log/containers

until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip link set eth0 up
for i in "${!addresses[@]}"; do
  case ${addresses[i]} in
  *:*) nodad=nodad forwarding=net.ipv6.conf.all.forwarding ;; # without a search for duplicates it can be used at once
  *) nodad='' forwarding=net.ipv4.ip_forward ;;
  esac
  ip addr add "${addresses[i]}" dev eth0 $nodad
  ip route add default via "${gateways[i]}"
  sysctl -qw "$forwarding=1"
done
own=("${addresses[@]%/*}")

containerd --config "$folder/containerd.toml" >>"$folder/containerd.log" 2>&1 &
until [ -S "$folder/containerd.sock" ]; do sleep 0.05; done
# A kubelet ends where containerd has its socket and does not answer yet; on other machines systemd
# starts it again.
while :; do
  "$binaries/kubelet" --config="$folder/kubelet.json" --kubeconfig="$folder/kubelet.kubeconfig" \
    --hostname-override="$(cat "$folder/name")" --node-ip="$(IFS=,; echo "${own[*]}")" --root-dir="$folder/kubelet" \
    --cert-dir="$folder/kubelet-pki" --node-labels="$(cat "$folder/labels")" || sleep 1
done >>"$folder/kubelet.log" 2>&1 &
"$binaries/kube-proxy" --config="$folder/proxy.json" >>"$folder/kube-proxy.log" 2>&1 &
while :; do wait -n || sleep 1; done # reaps orphans too
