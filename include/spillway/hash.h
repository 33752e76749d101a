// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The hash of checkpoints' files, for `train`; the definition is base's.
#pragma once

#include "base/hash.h"
