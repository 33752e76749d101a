// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Sizes as people type and read them ("600MiB"), for the fronts; the definitions are base's.
#pragma once

#include "base/units.h"
