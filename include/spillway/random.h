// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Numbers that depend on their key alone, for `train`; the definitions are base's.
#pragma once

#include "base/random.h"
