#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   tools/wheel.sh BUILD [FOLDER]
#
# Makes the wheel that a release would upload, of what BUILD holds, in FOLDER (build/wheel): Debian's
# libraries are inside, torch's are not; the torch of the environment that it is installed into is
# found beside it. Compiles nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$PWD/$1 folder=${2:-build/wheel}
tools/setup.sh tools >/dev/null
rm -rf "$folder"
"$(cat "$build/python.path")" -m pip wheel --disable-pip-version-check -q --no-deps -w "$folder/plain" . \
    -C cmake.source-dir=cmake/wheel -C "build-dir=$folder/cmake" -C "cmake.define.SPILLWAY_BUILD=$build"
PATH=$PWD/.venv/tools/bin:$PATH .venv/tools/bin/python -m auditwheel repair -w "$folder" \
    --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libcudart*' "$folder"/plain/*.whl
ls "$folder"/*.whl
