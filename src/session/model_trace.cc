// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "spillway/model_trace.h"

#include "session/input_files.h"
#include "workload/workload.h"

namespace spillway {

std::vector<std::string> model_names() {
    return workload_names();
}

Result<std::string> model_trace(ModelTrace const& what) {
    Result<Machine> const machine = read_machine(what.machine);
    if (!machine.ok()) {
        return machine.error();
    }
    Result<Trace> const trace = make_workload(
        {.model = what.model,
         .batch = what.batch,
         .sequence = what.sequence,
         .dtype = what.dtype.empty() ? "float32" : what.dtype,
         .optimizer = what.optimizer,
         .fused_attention = what.fused_attention,
         .dropout = what.dropout,
         .layers = what.layers},
        *machine
    );
    if (!trace.ok()) {
        return trace.error();
    }
    return to_json_text(*trace);
}

}  // namespace spillway
