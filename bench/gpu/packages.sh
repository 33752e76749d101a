#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   bench/gpu/packages.sh     (make gpu-packages)
#
# For a machine that can install nothing: downloads the libraries of tools/packages.txt, by their
# Debian names, with the shared libraries that they name, and unpacks them into build/gpu-packages.
# Run it on a Debian no newer than that machine's system, with a network, and carry the folder along
# (a few MB); bench/gpu/run.sh builds with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=build/gpu-packages
names=$(awk '$1 == "build" && $2 ~ /-dev$/ && $2 !~ /^coinor/ {print $2}' tools/packages.txt)
# shellcheck disable=SC2086  # a list of words
names+=" $(apt-cache depends $names | awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 !~ /^libc6?-dev$/ {print $2}')"

rm -rf "$folder" "$folder.debs"
mkdir -p "$folder" "$folder.debs"
# shellcheck disable=SC2086
if ! (cd "$folder.debs" && apt-get -o APT::Sandbox::User=root download -qq $names); then
    rm -rf "$folder" "$folder.debs"
    echo "bench/gpu/packages.sh: a download failed; run apt-get update, then this again" >&2
    exit 2
fi
for package in "$folder.debs"/*.deb; do
    dpkg-deb -x "$package" "$folder"
done
rm -rf "$folder.debs" "$folder"/usr/{src,share/doc,share/man}
printf '%s: %s, of %d packages\n' "$folder" "$(du -sh "$folder" | cut -f1)" "$(wc -w <<<"$names")"
