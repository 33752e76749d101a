// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session did, in numbers, as a table and as JSON; struct and texts are report's.
#pragma once

#include "report/report.h"
#include "report/report_text.h"
