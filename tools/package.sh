#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
#   tools/package.sh BUILD SCRIPT [ARGUMENT...]   runs a Python script on the package of that build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/$1
shift
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$folder/python SPILLWAY_BINARY_DIR=$folder OMP_NUM_THREADS=1
exec "$(cat "$folder/python.path")" "$@"
