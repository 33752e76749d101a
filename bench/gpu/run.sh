#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   bench/gpu/run.sh [STAGE...]     (make gpu-bench STAGES='build tests'; default: all, in this order)
#
# GPU tests and measurements on one machine with an H100 or H200, its own torch and no network; the
# libraries come along (`make gpu-packages`). Each stage can be run alone, within the seconds behind
# its name. Every entry of a stage is a process of its own with a limit, and adds one JSON line to
# the file as it ends; one that fails or hangs leaves a line that says why, and the next one runs.
# `make gpu-table` renders the file. `make gpu-rehearsal` runs all this but the GPU.
#
#   build       400  machine; first light, with torch alone; the programs; a tiny step under a budget
#   tests       330  the tests that need a GPU, and those with GPU cases; a small transformer in Python
#   exact       150  GPT-2 345M: losses and gradients to the last bit, plain, spillway, its NVMe
#   codecs       90  codecs, copies, the drive
#   gpt2        240  GPT-2 345M in all modes, and what cannot fit
#   llama       240  blocks of LLaMA 2 7B in all modes
#   large       200  GPT-2 1.5B
#   sanitizers  240  compute-sanitizer memcheck, racecheck
#
# Read on one machine with an H100 and 16 cores (bench/results): the build took 175 s without debug
# information, `exact` 37, `gpt2` 88; the others were not measured. A process needs 5 to load CUDA's kernels and to end, 8 for each
# thousand million weights that one core draws, 1 for each 2.5 GiB pinned.
#
# Exit code: 0, 1 where an entry failed, 2 where something that the build needs is missing or a stage
# has no such name, 77 without a GPU.
#
#   SPILLWAY_PYTHON  the Python whose torch is used (default: python3)
#   SPILLWAY_COMMIT  the commit of the numbers, where there is no git history
#   GPU_FILE         where the lines go (default: bench/results/<date>-<gpu>.jsonl)
#   GPU_SECONDS      for all stages together (default: no limit but theirs)
#   GPU_REHEARSAL    set: no GPU is asked for, and programs that need one check their flags alone
set -uo pipefail
cd "${BASH_SOURCE[0]%/*}/../.." || exit

readonly kStages=(build tests exact codecs gpt2 llama large sanitizers)
declare -A limit_of=([build]=400 [tests]=330 [exact]=150 [codecs]=90 [gpt2]=240 [llama]=240 [large]=200 [sanitizers]=240)
rehearsal=${GPU_REHEARSAL:-}
slower=${rehearsal:+10}  # than that machine is one that rehearses
slower=${slower:-1}

die() { printf 'bench/gpu/run.sh: %s\n' "$2" >&2; exit "$1"; }

for stage in "$@"; do
    [[ -n ${limit_of[$stage]:-} ]] || die 2 "$stage: no such stage; they are ${kStages[*]}"
done
if [[ -n $rehearsal ]]; then
    gpus='rehearsal, 81559 MiB'
else
    gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>&1) ||
        die 77 "no GPU here, nothing is measured (nvidia-smi: ${gpus%%$'\n'*})"
fi
gpu=${gpus%%$'\n'*}
gpu_mib=${gpu##*, } gpu_mib=${gpu_mib% MiB}
gpu_name=$(tr -cs 'a-zA-Z0-9\n' '-' <<<"${gpu%,*}" | tr '[:upper:]' '[:lower:]')
out=${GPU_FILE:-bench/results/$(date +%F)-$gpu_name.jsonl}
all_end=$(($(date +%s) + ${GPU_SECONDS:-86400}))
SPILLWAY_PYTHON=${SPILLWAY_PYTHON:-$(command -v python3)}
export SPILLWAY_PYTHON
export CUBLAS_WORKSPACE_CONFIG=:4096:8  # for --deterministic; the other runs get the same
export PATH=$PATH:/usr/local/cuda/bin
build=build/gpu
bench=$build/bench
programs=(spillway_{gpu_torch_bench,gpu_codec_bench,nvme_bench,plain_train} spillway_{cli,train}
    spillway_{torch_driver,cuda_device,train,gpu_torch}_test)
failed=0

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

# NAME LIMIT_S COMMAND...: counts what fails. `fails_with`: words that its error must have.
entry() {
    local name=$1 limit=$(($2 * slower)) command=("${@:3}") words=${fails_with:-}
    if [[ -n $rehearsal ]]; then
        [[ ${command[0]} == compute-sanitizer ]] && command=("${command[@]:5}")
        [[ ${command[0]} == */gpu_torch_bench ]] && command+=(--dry-run) words=''
    fi
    python3 bench/gpu/entry.py --out "$out" --name "$name" --limit "$limit" --deadline "$deadline" \
        --round "${round:-1}" ${words:+--fails-with "$words"} -- "${command[@]}" || ((++failed, 0))
}

# MODE LIMIT_S CAP_GIB HOST_GIB FLAG...: one configuration. A cap of 0 is the whole GPU; the host
# budget is about all that can leave, since pinning more costs seconds.
train() {
    local mode=$1 limit=$2 cap=$(($3 << 30)) host=$(($4 << 30)) budget=()
    [[ $mode =~ ^(spillway|qpo)$ ]] && budget=(--budget "$cap" --host-budget "$host")
    entry "train $mode ${*:3}${PYTORCH_CUDA_ALLOC_CONF:+ $PYTORCH_CUDA_ALLOC_CONF}" "$limit" \
        $bench/gpu_torch_bench --mode "$mode" --cap "$cap" "${budget[@]}" "${@:5}"
}

tests() { entry "$1" "$2" ctest --test-dir $build --no-tests=error --output-on-failure "${@:3}"; }

# A small model whose saved tensors, not its kernels' workspaces, are what does not fit.
readonly kSmall=(--model tiny --batch 64 --sequence 256 --mode spillway --steps 1 --warmup 1
    --budget $((160 << 20)) --host-budget $((1 << 30)))
sanitized() {
    entry "compute-sanitizer $1" "$2" compute-sanitizer --tool "$1" --error-exitcode 1 \
        $bench/gpu_torch_bench "${kSmall[@]}"
}

run_build() {
    local lack
    lack=$(missing)
    [[ -z $lack ]] || die 2 "$lack is not here, nothing is measured; libraries: \`make gpu-packages\` on a \
Debian with network, then carry build/gpu-packages along"
    entry machine 20 python3 bench/gpu/machine.py "$SPILLWAY_PYTHON"
    entry "first light" 60 "$SPILLWAY_PYTHON" bench/gpu/first_light.py ${rehearsal:+--device cpu}
    tools/setup.sh torch >/dev/null || exit 2
    # Built in place: what the stages run, no more.
    entry build 300 tools/build.sh gpu "${programs[@]}"
    [[ -x $bench/gpu_torch_bench ]] || die 1 "there is no build, nothing is measured; $out says why"
    entry "a tiny step under a budget" 40 $bench/gpu_torch_bench "${kSmall[@]}"
}

run_tests() {
    tests "tests of label gpu: programs" 90 -R '^end_to_end_gpu$'
    tests "tests of label gpu: the runtime's suite" 120 -R '^gpu_torch$'
    tests "tests with GPU cases" 60 -R '^(torch_driver|cuda_device|train)$'
    [[ -n $rehearsal ]] ||
        PYTHONPATH=$build/python entry "python step" 60 "$SPILLWAY_PYTHON" bench/gpu/python_step.py
}

# What is kept, cannot leave, and waits on the host is reckoned from `spillway train` on a CPU: 15
# bytes a weight, 6 a logit; saved in a block, 48 for each token and unit of width of GPT-2, 55 of
# LLaMA. Plain training passes the cap, what cannot leave stays below it.

# Kernels that add in one order: losses and gradients must be equal to the last bit.
run_exact() {
    local exact=(--model gpt2-345m --batch 4 --steps 2 --warmup 1 --deterministic)
    train plain 40 0 0 "${exact[@]}"
    train spillway 40 9 6 "${exact[@]}"
    mkdir -p $build/nvme
    train spillway 60 9 0 "${exact[@]}" --nvme $build/nvme --nvme-budget $((16 << 30))
    train checkpoint 40 0 0 "${exact[@]}"
    train save_on_cpu 40 0 0 "${exact[@]}"
}

# What the links can do; overlap efficiency is told against it.
run_codecs() {
    entry ceilings 30 $bench/gpu_torch_bench --ceilings $((256 << 20))
    entry codecs 30 $bench/gpu_codec_bench
    entry "nvme ceiling" 30 $bench/nvme_bench --folder build --size 2GiB
}

run_gpt2() {
    local capped=(--model gpt2-345m --batch 16 --steps 5)
    train plain 40 0 0 "${capped[@]}"
    train spillway 40 24 20 "${capped[@]}"
    train qpo 40 24 20 "${capped[@]}"  # beside spillway, which is its uncompressed offload
    train checkpoint 40 24 0 "${capped[@]}"
    train save_on_cpu 40 24 0 "${capped[@]}"
    fails_with='out of memory' train plain 40 24 0 "${capped[@]}"  # what Spillway is for
    # Again: plain against plain is the noise from run to run.
    round=2 train plain 40 0 0 "${capped[@]}"
    round=2 train spillway 40 24 20 "${capped[@]}"
    # A budget bounds what torch reserves, too: in fixed segments what is free is in pieces, and requests are
    # refused that would fit. That is why a session asks for segments that grow.
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False fails_with='in pieces' train spillway 40 24 20 "${capped[@]}"
}

# Blocks of LLaMA 2 7B under the next cap that plain training of them passes.
run_llama() {
    local llama=(4 7) next=40 host=26
    ((gpu_mib > 100 * 1024)) && llama=(8 8) next=80 host=32
    local blocks=(--model "llama2-7b-blocks:${llama[0]}" --batch "${llama[1]}" --steps 3)
    train plain 60 0 0 "${blocks[@]}"
    train spillway 60 $next $host "${blocks[@]}"
    train qpo 60 $next $host "${blocks[@]}"
    train checkpoint 60 $next 0 "${blocks[@]}"
    train save_on_cpu 60 $next 0 "${blocks[@]}"
}

run_large() {
    train plain 60 0 0 --model gpt2-1.5b --batch 8 --steps 3
    train spillway 60 40 30 --model gpt2-1.5b --batch 8 --steps 3
    train qpo 60 40 30 --model gpt2-1.5b --batch 8 --steps 3
}

run_sanitizers() {
    sanitized memcheck 100
    sanitized racecheck 100
}

# The deadline of a stage is its own, and that of all.
for stage in "${@:-${kStages[@]}}"; do
    [[ $stage == build || -x $bench/gpu_torch_bench ]] ||
        die 1 "there is no build: run the stage build first"
    deadline=$(($(date +%s) + slower * limit_of[$stage]))
    ((deadline > all_end)) && deadline=$all_end
    "run_$stage"
done
echo "$out: $(wc -l <"$out") lines, $failed failed in this run; make gpu-table FILE=$out"
exit $((failed > 0))
