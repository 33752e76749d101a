// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session did, in numbers; the struct is timeline's.
#pragma once

#include "timeline/report.h"
