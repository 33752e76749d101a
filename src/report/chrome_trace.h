// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A timeline for trace viewers (Perfetto, chrome://tracing): JSON Object Format of the Trace Event
// Format. Export only. docs/formats/timeline.md describes the mapping.
#pragma once

#include "timeline/timeline.h"

#include <string>

namespace spillway {

[[nodiscard]] std::string to_chrome_trace(Timeline const& timeline);

}  // namespace spillway
