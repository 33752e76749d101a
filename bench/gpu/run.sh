#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   bench/gpu/run.sh [FILE]     (default bench/results/<date>-<gpu>.jsonl)
#
# All GPU tests and measurements in under nine minutes, on one machine with an H100 or H200, its own
# torch and no network. Every entry below is a process of its own with a limit in seconds and leaves
# one JSON line; one that fails leaves a line that says why, and the next one runs. `make gpu-table`
# renders the file. Without a GPU: one line, exit code 77.
#
#   SPILLWAY_PYTHON  the Python whose torch is used (default: python3)
#   GPU_SECONDS      for everything (default 525)
#   HOST_GIB         pinned memory that Spillway may use (default 32)
gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>&1) || {
    printf 'bench/gpu/run.sh: no GPU here, nothing is measured (nvidia-smi: %s)\n' "${gpus%%$'\n'*}" >&2
    exit 77
}
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

gpu=${gpus%%$'\n'*}
gpu_mib=${gpu##*, }
gpu_name=$(tr -cs 'a-zA-Z0-9\n' '-' <<<"${gpu%,*}" | tr '[:upper:]' '[:lower:]')
out=${1:-bench/results/$(date +%F)-$gpu_name.jsonl}
deadline=$(($(date +%s) + ${GPU_SECONDS:-525}))
export SPILLWAY_PYTHON=${SPILLWAY_PYTHON:-$(command -v python3)}
export CUBLAS_WORKSPACE_CONFIG=:4096:8  # for --deterministic; the other runs get the same
export PATH=$PATH:/usr/local/cuda/bin
gib=$((1 << 30))
host=$((${HOST_GIB:-32} * gib))
bench=build/torch/bench
: >"$out"

entry() {  # NAME LIMIT_S COMMAND...
    python3 bench/gpu/entry.py --out "$out" --name "$1" --limit "$2" --deadline "$deadline" \
        --round "${round:-1}" -- "${@:3}"
}

# MODE LIMIT_S CAP_GIB FLAG...: one configuration; a cap of 0 is the whole GPU.
train() {
    local mode=$1 limit=$2 cap=$(($3 * gib)) budget=()
    [[ $mode == spillway ]] && budget=(--budget "$cap" --host-budget "$host")
    entry "train $mode ${*:3}" "$limit" \
        $bench/gpu_torch_bench --mode "$mode" --cap "$cap" "${budget[@]}" "${@:4}"
}

# TOOL: a small model whose saved tensors, not its kernels' workspaces, are what does not fit.
sanitized() {
    entry "compute-sanitizer $1" 60 compute-sanitizer --tool "$1" --error-exitcode 1 \
        $bench/gpu_torch_bench --model tiny --batch 64 --sequence 256 --mode spillway --steps 1 \
        --warmup 1 --budget $((160 << 20)) --host-budget $((1 << 30))
}

entry machine 20 python3 bench/gpu/machine.py "$SPILLWAY_PYTHON"

# Built in place, the tests that need a GPU among it.
entry build 240 tools/build.sh torch

entry "tests of label gpu" 60 ctest --test-dir build/torch -L gpu --no-tests=error --output-on-failure
entry "tests with GPU cases" 60 ctest --test-dir build/torch -R '^(torch_driver|cuda_device|train)$' \
    --no-tests=error --output-on-failure
sanitized memcheck
sanitized racecheck

# What the links can do; overlap efficiency is told against it.
entry ceilings 30 $bench/gpu_torch_bench --ceilings $((256 << 20))
entry "nvme ceiling" 30 $bench/nvme_bench --folder build --size 2GiB

# All modes on kernels that add in one order: losses and gradients must be equal to the last bit.
for mode in plain checkpoint save_on_cpu spillway; do
    [[ $mode == spillway ]] && cap=11 || cap=0  # so that some of it has to leave
    train $mode 40 $cap --model gpt2-345m --batch 4 --steps 2 --warmup 1 --deterministic
done

# Sizes are reckoned, not measured: plain training exceeds the cap, and what cannot leave the device
# (weights, gradients, moments, logits) stays below it.
#
# In turns, twice: drift falls on all, and plain against plain is the noise from run to run.
for round in 1 2; do
    for mode in plain checkpoint save_on_cpu spillway; do
        [[ $mode == plain ]] && cap=0 || cap=24
        train $mode 40 $cap --model gpt2-345m --batch 12 --steps 5
    done
done
round=1
train plain 40 24 --model gpt2-345m --batch 12 --steps 5  # what Spillway is for: it must not fit

# Blocks of LLaMA 2 7B under the next cap that plain training of them exceeds.
if ((gpu_mib > 100 * 1024)); then blocks=10 batch=6 next=80; else blocks=6 batch=4 next=40; fi
for mode in plain checkpoint save_on_cpu spillway; do
    [[ $mode == plain ]] && cap=0 || cap=$next
    train $mode 60 $cap --model llama2-7b-blocks:$blocks --batch $batch --steps 3
done

for mode in plain checkpoint save_on_cpu spillway; do
    [[ $mode == plain ]] && cap=0 || cap=40
    train $mode 60 $cap --model gpt2-1.5b --batch 8 --steps 3
done

echo "$out: $(wc -l <"$out") lines; make gpu-table FILE=$out"
