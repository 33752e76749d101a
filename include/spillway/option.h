// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the options of a session are called in C++, in Python and on the command line.
#pragma once

#include "base/option.h"
