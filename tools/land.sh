#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   tools/land.sh     (make land)
#
# Moves `main` to the commit at `next`, if the whole suite is green there. It runs in a clone beside
# the tree (<tree>.landing), which keeps its .venv from one landing to the next and is left as it is
# for a look. `main` moves in no other way. Exit code: 0 landed, or nothing to land; 1 a test failed;
# 2 it was not tried.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kTree=$PWD
readonly kClone=$kTree.landing kLog=$kTree.landing.log kCache=$kTree.landing.ccache

say() { printf 'land: %s\n' "$*"; }
die() { printf 'land: %s\n' "$*" >&2; exit 2; }

exec 9>"$kTree.landing.lock"
flock -n 9 || die "another landing is under way (it holds $kTree.landing.lock)"

next=$(git rev-parse -q --verify refs/heads/next) || die 'there is no branch `next`: git switch -c next'
main=$(git rev-parse -q --verify refs/heads/main) || die 'there is no branch `main`'
[[ -z $(git status --porcelain) ]] || die "uncommitted changes; commit or stash them: $(git status --porcelain | head -n 3 | tr '\n' ' ')"
[[ $next != "$main" ]] || { say "main is at next already (${next:0:10})"; exit 0; }
git merge-base --is-ancestor "$main" "$next" || die 'main has commits that next lacks: git rebase main next'

[[ -d $kClone/.git ]] || git clone -q --no-checkout "$kTree" "$kClone"
git -C "$kClone" fetch -q "$kTree" refs/heads/next
git -C "$kClone" checkout -q --force --detach "$next"
git -C "$kClone" clean -ffdxq -e .venv

say "make test of ${next:0:10} in $kClone; its output is in $kLog"
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES
rm -f "$kCache"
set +e
CCACHE_STATSLOG=$kCache make -C "$kClone" test 9>&- 2>&1 | tee "$kLog" 9>&- |
    grep --line-buffered -E '^(====|check |[0-9]+ passed)' 9>&-
status=${PIPESTATUS[0]}
set -e
if [[ -s $kCache ]] && command -v ccache >/dev/null; then
    CCACHE_STATSLOG=$kCache ccache --show-log-stats | sed -n 's/^ *\(Hits:.*\)/land: compiler cache: \1/p' | head -n 1
fi
if ((status != 0)); then
    printf '\n'
    sed -n '/^The following tests FAILED/,/^$/p' "$kLog"
    tail -n 30 "$kLog"
    say "${next:0:10} is red; main stays at ${main:0:10}. Its output is in $kLog, its tree in $kClone"
    exit 1
fi
tail -n 12 "$kLog"
if [[ $(git symbolic-ref -q HEAD) == refs/heads/main ]]; then
    git merge -q --ff-only "$next"
else
    git update-ref -m "land ${next:0:10}" refs/heads/main "$next" "$main"
fi
say "main is at ${next:0:10}"
