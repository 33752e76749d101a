#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# Set-up, idempotent and quick when there is nothing to do:
#
#   tools/setup.sh packages GROUP...   installs what is missing of these groups of packages.txt
#   tools/setup.sh preflight GROUP...  prints one line and exits 2 if `packages` would have to give up
#   tools/setup.sh docs                prints the Python that builds the documentation; installs it if needed
#   tools/setup.sh torch [VERSION]     prints the Python to build against; installs torch if needed
#   tools/setup.sh yours [VERSION]     prints the user's Python where `torch` would take that one; installs nothing
#   tools/setup.sh tests [VERSION]     installs what the Python tests use beside that torch
#   tools/setup.sh tools               installs what tools/ uses from PyPI, and prints the folder of its modules
#
# torch: SPILLWAY_PYTHON, then an active virtual environment, where their torch is supported (and is
# VERSION, if one is given); else the virtual environment .venv/torch-VERSION, made here. `docs` and
# `tools` have environments of their own, which are made whatever torch is used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kDefaultTorch=2.15.0
readonly kOldestMinor=11 kNewestMinor=15  # of torch 2

log() { printf '%s\n' "$*" >&2; }
die() { log "$*"; exit 2; }

missing_packages() {  # GROUP...: the missing packages, on one line
    local group package probe missing=() groups=" $* "
    while read -r group package probe; do
        [[ $group == \#* || -z $group || $groups != *" $group "* ]] && continue
        [[ -n $probe ]] && eval "$probe" >/dev/null 2>&1 && continue
        [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == "install ok installed" ]] && continue
        missing+=("$package")
    done <tools/packages.txt
    printf '%s' "${missing[*]:-}"
}

root_command() {  # prints the prefix that makes a command run as root; fails if there is none
    if [[ $(id -u) == 0 ]]; then
        return 0
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; then
        printf 'sudo'
    else
        return 1
    fi
}

preflight() {
    local missing
    missing=$(missing_packages "$@")
    if [[ -n $missing ]] && ! { command -v apt-get && root_command; } >/dev/null; then
        printf 'Debian packages are missing, and installing them needs root: `apt-get update && apt-get install -y %s`' "$missing"
        return 2
    fi
}

packages() {
    local missing root message
    missing=$(missing_packages "$@")
    [[ -z $missing ]] && return 0
    message=$(preflight "$@") || die "$message"
    root=$(root_command)
    mkdir -p .venv
    exec 7>.venv/.packages.lock  # a second one would find apt's own lock taken, and fail
    flock 7
    log "set-up: installing Debian packages: $missing"
    # shellcheck disable=SC2086  # both are lists of words
    if ! { $root apt-get update -qq &&
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >&2; then
        die "Debian packages could not be installed; run: \`apt-get update && apt-get install -y $missing\`"
    fi
    exec 7>&-
}

torch_version() {  # PYTHON: the version of its torch, or nothing
    "$1" -I tools/find_torch.py 2>/dev/null | cut -d';' -f1
}

# PYTHON WANTED: is its torch supported, WANTED if that is given, and does it import? Asked once.
suitable() {
    local version minor stamp
    version=$(torch_version "$1")
    [[ $version =~ ^2\.([0-9]+)\. ]] || return 1
    minor=${BASH_REMATCH[1]}
    ((minor >= kOldestMinor && minor <= kNewestMinor)) || return 1
    [[ -z $2 || $2 == "$version" ]] || return 1
    stamp=build/.setup/$(printf '%s' "$1 $version" | cksum | cut -d' ' -f1)
    [[ -e $stamp ]] && return 0
    "$1" -c 'import torch' >/dev/null 2>&1 || return 1
    mkdir -p build/.setup && touch "$stamp"
}

lock() {  # NAME: one at a time makes .venv/NAME, until this shell ends
    mkdir -p .venv
    exec 8>".venv/.$1.lock"
    flock 8
}

own_torch() {  # VERSION: the Python of .venv/torch-VERSION, made if it is not there whole
    local venv=.venv/torch-$1 stamp=.venv/torch-$1/.spillway-complete
    lock "${venv##*/}"
    if [[ ! -e $stamp || ! -x $venv/bin/python ]]; then
        packages build >&2
        log "set-up: installing torch $1 into $venv (a download of some gigabytes, once)"
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/python" -m pip install --disable-pip-version-check "torch==$1" numpy >&2 ||
            die "torch $1 could not be installed into $venv"
        "$venv/bin/python" -c 'import torch, numpy' >&2 || die "torch $1 in $venv does not import"
        touch "$stamp"
    fi
    printf '%s\n' "$PWD/$venv/bin/python"
}

yours() {  # [VERSION]: the user's Python, where its torch is to be used
    local wanted=${1:-} python range="2.$kOldestMinor to 2.$kNewestMinor"
    if [[ -n ${SPILLWAY_PYTHON:-} ]]; then
        python=$(command -v "$SPILLWAY_PYTHON") || die "SPILLWAY_PYTHON=$SPILLWAY_PYTHON: no such program"
        suitable "$python" "$wanted" && { printf '%s\n' "$python"; return; }
        [[ -n $wanted ]] ||
            die "SPILLWAY_PYTHON=$SPILLWAY_PYTHON: no torch $range that imports"
    elif [[ -n ${VIRTUAL_ENV:-} && -x $VIRTUAL_ENV/bin/python ]]; then
        python=$VIRTUAL_ENV/bin/python
        suitable "$python" "$wanted" && { printf '%s\n' "$python"; return; }
        [[ -n $wanted ]] || log "set-up: the active virtual environment has no torch $range; not used"
    fi
}

torch() {
    local python
    python=$(yours "${1:-}") || exit
    [[ -n $python ]] && { printf '%s\n' "$python"; return; }
    own_torch "${1:-$kDefaultTorch}"
}

# What builds the documentation, into an environment of its own.
docs() {
    local venv=.venv/docs wanted stamp
    wanted=$(cksum <tools/site/requirements.txt | cut -d' ' -f1)
    stamp=$venv/.spillway-$wanted
    lock "${venv##*/}"
    if [[ ! -e $stamp ]]; then
        packages docs
        log "set-up: installing what builds the documentation into $venv"
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/python" -m pip install --disable-pip-version-check -q -r tools/site/requirements.txt >&2 ||
            die "what tools/site/requirements.txt names could not be installed into $venv"
        touch "$stamp"
    fi
    printf '%s\n' "$PWD/$venv/bin/python"
}

# What the Python tests use, into an environment of our own; a user's is left as it is, and the tests
# that miss something say so.
tests() {
    local python venv wanted version stamp
    python=$(torch "${1:-}")
    [[ $python == "$PWD"/.venv/torch-*/bin/python ]] || return 0
    venv=${python%/bin/python}
    wanted=$(cat tests/python/requirements*.txt | cksum | cut -d' ' -f1)
    stamp=$venv/.spillway-tests-$wanted
    lock "${venv##*/}"
    [[ -e $stamp ]] && return 0
    version=$(torch_version "$python")
    log "set-up: installing what the Python tests use beside torch $version"
    "$python" -m pip install --disable-pip-version-check -q -c <(printf 'torch==%s\n' "$version") \
        -r tests/python/requirements.txt >&2 &&
        "$python" -m pip install --disable-pip-version-check -q --no-deps -r tests/python/requirements-alone.txt >&2 ||
        die "what tests/python/requirements.txt names could not be installed beside torch $version"
    touch "$stamp"
}

# What tools/ uses, into an environment of its own, beside no torch.
tools() {
    local venv=.venv/tools wanted stamp
    wanted=$(cksum <tools/requirements.txt | cut -d' ' -f1)
    stamp=$venv/.spillway-$wanted
    lock "${venv##*/}"
    if [[ ! -e $stamp ]]; then
        log "set-up: installing what tools/ uses into $venv"
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/python" -m pip install --disable-pip-version-check -q -r tools/requirements.txt >&2 ||
            die "what tools/requirements.txt names could not be installed into $venv"
        touch "$stamp"
    fi
    "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

case ${1:-} in
    packages | preflight | torch | yours | tests | docs | tools) "$@" ;;
    *) die "usage: tools/setup.sh packages|preflight GROUP... | torch|yours|tests [VERSION] | docs | tools" ;;
esac
