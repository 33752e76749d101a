#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   bench/gpu/run.sh [FILE]     (default bench/results/<date>-<gpu>.jsonl)
#
# All GPU tests and measurements in under ten minutes, on one machine with an H100 or H200, its own
# torch and no network; the libraries come along (`make gpu-packages`). Every entry below is a process
# of its own with a limit in seconds and leaves one JSON line; one that fails leaves a line that says
# why, and the next one runs; without a build nothing else does. `make gpu-table` renders the file.
#
# Exit code: 0, 1 where an entry failed, 2 where something that the build needs is missing, 77 without
# a GPU.
#
#   SPILLWAY_PYTHON  the Python whose torch is used (default: python3)
#   GPU_SECONDS      for everything (default 575)
#
# Seconds reckoned for an H100 and 16 cores, none of them measured. A process needs 5 to load CUDA's
# kernels and to end, 8 for each thousand million weights that one core draws, 1 for each 2.5 GiB pinned:
#
#   machine, build                            100    memcheck                             45
#   tests                                      97    llama2-7b-blocks, all modes         128
#   bit by bit: plain, spillway, its NVMe      52    gpt2-345m again, plain and spillway  29
#   ceilings, codecs                           28                                       ----
#   gpt2-345m, all modes, and what cannot fit  86                                        565
#
# Where time is left: bit by bit, the other two 20; gpt2-1.5b, plain, spillway and qpo 90; racecheck 45.
gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>&1) || {
    printf 'bench/gpu/run.sh: no GPU here, nothing is measured (nvidia-smi: %s)\n' "${gpus%%$'\n'*}" >&2
    exit 77
}
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

gpu=${gpus%%$'\n'*}
gpu_mib=${gpu##*, }
gpu_name=$(tr -cs 'a-zA-Z0-9\n' '-' <<<"${gpu%,*}" | tr '[:upper:]' '[:lower:]')
out=${1:-bench/results/$(date +%F)-$gpu_name.jsonl}
deadline=$(($(date +%s) + ${GPU_SECONDS:-575}))
SPILLWAY_PYTHON=${SPILLWAY_PYTHON:-$(command -v python3)}
export SPILLWAY_PYTHON
export CUBLAS_WORKSPACE_CONFIG=:4096:8  # for --deterministic; the other runs get the same
export PATH=$PATH:/usr/local/cuda/bin
build=build/gpu
bench=$build/bench
failed=0

die() { printf 'bench/gpu/run.sh: %s\n' "$2" >&2; exit "$1"; }

# The first thing that the build needs and that cannot be found, or nothing.
missing() {
    local tool
    for tool in cmake ctest ninja g++ flock; do
        command -v "$tool" >/dev/null || { printf 'the program %s' "$tool"; return; }
    done
    # {,}: each name twice, for the test and for the message.
    printf '#if !__has_include(<%s>)\n#error spillway-needs <%s>\n#endif\n' \
        {fmt/format.h,nlohmann/json.hpp,CLI/CLI.hpp,liburing.h,xxhash.h,hwy/highway.h,zstd.h,gtest/gtest.h,benchmark/benchmark.h}{,} |
        g++ -E -x c++ -I build/gpu-packages/usr/include - 2>&1 |
        sed -n '/spillway-needs/ {s/.*spillway-needs \(<[^>]*>\).*/the header \1/p; q}'
}
lack=$(missing)
[[ -z $lack ]] || die 2 "$lack is not here, nothing is measured; libraries: \`make gpu-packages\` on a \
Debian with network, then carry build/gpu-packages along"
tools/setup.sh torch >/dev/null || exit 2
: >"$out" || exit 2

# NAME LIMIT_S COMMAND...: counts what fails. `fails_with`: words that its error must have.
entry() {
    python3 bench/gpu/entry.py --out "$out" --name "$1" --limit "$2" --deadline "$deadline" \
        --round "${round:-1}" ${fails_with:+--fails-with "$fails_with"} -- "${@:3}" || ((++failed, 0))
}

# MODE LIMIT_S CAP_GIB HOST_GIB FLAG...: one configuration. A cap of 0 is the whole GPU; the host
# budget is about all that can leave, since pinning more costs seconds.
train() {
    local mode=$1 limit=$2 cap=$(($3 << 30)) host=$(($4 << 30)) budget=()
    [[ $mode =~ ^(spillway|qpo)$ ]] && budget=(--budget "$cap" --host-budget "$host")
    entry "train $mode ${*:3}" "$limit" \
        $bench/gpu_torch_bench --mode "$mode" --cap "$cap" "${budget[@]}" "${@:5}"
}

tests() { entry "$1" "$2" ctest --test-dir $build --no-tests=error --output-on-failure "${@:3}"; }

# TOOL: a small model whose saved tensors, not its kernels' workspaces, are what does not fit.
sanitized() {
    entry "compute-sanitizer $1" 60 compute-sanitizer --tool "$1" --error-exitcode 1 \
        $bench/gpu_torch_bench --model tiny --batch 64 --sequence 256 --mode spillway --steps 1 \
        --warmup 1 --budget $((160 << 20)) --host-budget $((1 << 30))
}

# SECONDS COMMAND...: only where so many are left; what is left out is said and is no failure.
if_time() {
    local left=$((deadline - $(date +%s)))
    if ((left >= $1)); then "${@:2}"; else printf 'left out, %d s are left: %s\n' "$left" "${*:2}"; fi
}

entry machine 20 python3 bench/gpu/machine.py "$SPILLWAY_PYTHON"

# Built in place: what the entries below run, no more.
entry build 240 tools/build.sh gpu spillway_{gpu_torch_bench,gpu_codec_bench,nvme_bench,plain_train} \
    spillway_{cli,train} spillway_{torch_driver,cuda_device,train}_test || die 1 "there is no build, nothing is measured; $out says why"

tests "tests of label gpu" 120 -L gpu
tests "tests with GPU cases" 60 -R '^(torch_driver|cuda_device|train)$'

# What is kept, cannot leave, and waits on the host is reckoned from `spillway train` on a CPU: 15
# bytes a weight, 6 a logit; saved in a block, 48 for each token and unit of width of GPT-2, 55 of
# LLaMA. Plain training passes the cap, what cannot leave stays below it.

# Kernels that add in one order: losses and gradients must be equal to the last bit.
exact=(--model gpt2-345m --batch 4 --steps 2 --warmup 1 --deterministic)
train plain 40 0 0 "${exact[@]}"
train spillway 40 9 6 "${exact[@]}"
mkdir -p $build/nvme
train spillway 60 9 0 "${exact[@]}" --nvme $build/nvme --nvme-budget $((16 << 30))

# What the links can do; overlap efficiency is told against it.
entry ceilings 30 $bench/gpu_torch_bench --ceilings $((256 << 20))
entry codecs 30 $bench/gpu_codec_bench
entry "nvme ceiling" 30 $bench/nvme_bench --folder build --size 2GiB

capped=(--model gpt2-345m --batch 16 --steps 5)
train plain 40 0 0 "${capped[@]}"
train spillway 40 24 20 "${capped[@]}"
train qpo 40 24 20 "${capped[@]}"  # beside spillway, which is its uncompressed offload
train checkpoint 40 24 0 "${capped[@]}"
train save_on_cpu 40 24 0 "${capped[@]}"
fails_with='out of memory' train plain 40 24 0 "${capped[@]}"  # what Spillway is for

sanitized memcheck

# Blocks of LLaMA 2 7B under the next cap that plain training of them passes.
if ((gpu_mib > 100 * 1024)); then llama=(8 8) next=80 host=32; else llama=(4 7) next=40 host=26; fi
blocks=(--model "llama2-7b-blocks:${llama[0]}" --batch "${llama[1]}" --steps 3)
train plain 60 0 0 "${blocks[@]}"
train spillway 60 $next $host "${blocks[@]}"
train qpo 60 $next $host "${blocks[@]}"
train checkpoint 60 $next 0 "${blocks[@]}"
train save_on_cpu 60 $next 0 "${blocks[@]}"

# Again: plain against plain is the noise from run to run.
round=2 train plain 40 0 0 "${capped[@]}"
round=2 train spillway 40 24 20 "${capped[@]}"

if_time 15 train checkpoint 40 0 0 "${exact[@]}"
if_time 15 train save_on_cpu 40 0 0 "${exact[@]}"
if_time 25 train plain 60 0 0 --model gpt2-1.5b --batch 8 --steps 3
if_time 40 train spillway 60 40 30 --model gpt2-1.5b --batch 8 --steps 3
if_time 40 train qpo 60 40 30 --model gpt2-1.5b --batch 8 --steps 3
if_time 60 sanitized racecheck

echo "$out: $(wc -l <"$out") lines, $failed failed; make gpu-table FILE=$out"
exit $((failed > 0))
