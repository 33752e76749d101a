#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   bench/gpu/rehearse.sh [STAGE...]     (make gpu-rehearsal)
#
# All of bench/gpu/run.sh but the GPU, as that machine will see it: the files of the tree without git
# history in a folder of their own (build/gpu-rehearsal, which keeps its build), torch 2.11 with CUDA,
# the carried libraries alone (those of this system are hidden), no network. Needs root, for that.
# Exit code: that of run.sh; 2 where the machine cannot rehearse.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly kTorch=2.11.0  # of the GPU machine
root=build/gpu-rehearsal

die() { printf 'bench/gpu/rehearse.sh: %s\n' "$1" >&2; exit 2; }

if [[ ${REHEARSAL_STEP:-} != run ]]; then
    [[ $(id -u) == 0 ]] || die "it hides libraries of this system in a mount namespace: run it as root"
    SPILLWAY_PYTHON=$(SPILLWAY_PYTHON='' tools/setup.sh torch $kTorch)
    [[ -d build/gpu-packages ]] || bench/gpu/packages.sh
    mkdir -p $root
    find $root -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [[ ! -e $file ]] || printf '%s\0' "$file"  # else it was deleted, and is still tracked
    done | xargs -0 cp --parents --preserve=mode,timestamps -t $root
    mkdir -p $root/build && rm -rf $root/build/gpu-packages && cp -r build/gpu-packages $root/build/
    SPILLWAY_COMMIT=$(git rev-parse --short HEAD)
    export SPILLWAY_PYTHON SPILLWAY_COMMIT
    REHEARSAL_STEP=run exec unshare --mount --net bash "$0" "$@"
fi

# Changes of /usr from here on are this namespace's own.
layers=$(mktemp -d)
mount -t tmpfs tmpfs "$layers"
mkdir "$layers/upper" "$layers/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$layers/upper,workdir=$layers/work" /usr ||
    die "no overlay file system here"
awk '$1 == "build" && $2 ~ /-dev$/ {print $2}' tools/packages.txt | while read -r package; do
    dpkg -L "$package" 2>/dev/null | while read -r file; do
        [[ $file != /usr/* || (-d $file && ! -L $file) ]] || rm -f "$file"
    done
done
cd $root
GPU_REHEARSAL=1 GPU_FILE=build/rehearsal.jsonl CCACHE_DISABLE=1 exec bench/gpu/run.sh "$@"
