#!/usr/bin/env bash
# Fetches the library that draws the page's curves, by version and digest, into this folder. Its files are checked in,
# so a build needs no npm; run this to change the version, with the digests in SHA256SUMS.
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" uplot@1.6.32 >/dev/null
tar -xzf "$folder"/uplot-1.6.32.tgz -C "$folder"
cp "$folder"/package/dist/uPlot.iife.min.js "$folder"/package/dist/uPlot.min.css .
cp "$folder"/package/LICENSE uPlot.LICENSE.txt
sha256sum --check --quiet SHA256SUMS
