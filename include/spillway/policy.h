// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The policies that a session can follow: their names, what they do, their papers.
#pragma once

#include "policy/catalog.h"
