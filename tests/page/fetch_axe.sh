#!/usr/bin/env bash
# Fetches axe-core, which judges the accessibility of a page, by version and digest, into a folder. Only a test uses it.
#
# Usage: fetch_axe.sh FOLDER
set -euo pipefail
mkdir -p "$1"
cd "$1"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" axe-core@4.14.1 >/dev/null
tar -xzf "$folder"/axe-core-4.14.1.tgz -C "$folder"
echo "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c  $folder/package/axe.min.js" | sha256sum --check --quiet
cp "$folder"/package/axe.min.js .
