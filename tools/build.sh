#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   tools/build.sh PRESET [--torch VERSION] [TARGET...]
#
# Configures build/PRESET (build/PRESET-VERSION for --torch) where that is not done, and builds it.
# The presets that see torch ask tools/setup.sh for a Python; it is left in <folder>/python.path.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1 folder=build/$1 torch='' targets=()
shift
while (($#)); do
    case $1 in
        --torch) torch=$2 folder=build/$preset-$2 && shift 2 ;;
        *) targets+=("$1") && shift ;;
    esac
done

# A file that sees torch takes up to 2 GB to compile.
jobs=$(nproc)
by_memory=$(awk '/MemAvailable/ {print int($2 / 2000000)}' /proc/meminfo)
((by_memory < jobs)) && jobs=$((by_memory > 1 ? by_memory : 1))

options=()
# Several files are compiled as one, as `pip install .` does it, where nobody waits for one alone: a third of the time.
[[ $preset =~ ^(asan|tsan|mutants)$ || -n $torch ]] && options+=(-DCMAKE_UNITY_BUILD=ON)
if [[ $preset =~ ^(torch|gpu|mutants|asan)$ ]]; then
    # shellcheck disable=SC2086  # no version is no argument
    python=$(tools/setup.sh torch $torch)
    options+=("-DSPILLWAY_PYTHON=$python")
    # Those are there for their tests; which headers a file names, the default build sees.
    [[ -n $torch || $preset == asan ]] && options+=(-DSPILLWAY_TORCH_PCH=ALL)
fi

mkdir -p "$folder"
exec 9>"$folder.lock"
flock 9
if [[ ! -e $folder/build.ninja || ${python:-} != "$(cat "$folder/python.path" 2>/dev/null)" ]]; then
    rm -f "$folder/python.path"
    log=$folder.configure.log
    cmake --preset "$preset" -B "$folder" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    sed -n 's/^-- \(spillway: .*\)/\1/p' "$log" >&2  # what this build leaves out, and why
    [[ -n ${python:-} ]] && printf '%s' "$python" >"$folder/python.path"
fi
cmake --build "$folder" -j "$jobs" ${targets:+--target "${targets[@]}"} 9>&-
