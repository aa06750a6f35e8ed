#!/usr/bin/env bash
# Prints the address from which this machine gets Debian's packages, as apt is configured.
set -euo pipefail
if [ -f /etc/apt/sources.list.d/debian.sources ]; then
  awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources
else
  awk '/^deb / {for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) {print $i; exit}}' /etc/apt/sources.list
fi | grep .
