// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Why a session refused an allocation, in codes and numbers.
#pragma once

#include "base/refusal.h"
