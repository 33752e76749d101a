# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# One precompiled header for train, its tests and the other torch tests: tensors, operators and
# autograd's factories. Making it costs some 25 s and 430 MB of disk a build folder, and saves 7 s a
# file. torch/torch.h would cost twice that, and 4 s more in every file that uses it, for templates
# that g++ instantiates again each time. torch_driver goes without, so that each of its files names
# the narrow headers that it needs; with ALL, for builds that only tests run, it has it, too.
set(SPILLWAY_TORCH_PCH ON CACHE STRING "Precompile torch's headers: ON, OFF, or ALL")

if(SPILLWAY_TORCH_PCH)  # here, at the same path in every build, so that ccache knows its users again
  set(source ${CMAKE_BINARY_DIR}/torch_pch.cc)
  file(GENERATE OUTPUT ${source} CONTENT "// Only so that the precompiled header has an owner.\n")
  add_library(spillway_torch_pch OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(spillway_torch_pch PRIVATE spillway_flags torch_lite dep_threads)
  target_precompile_headers(spillway_torch_pch PRIVATE
    <ATen/ATen.h> <torch/csrc/autograd/variable.h>
    <torch/csrc/autograd/generated/variable_factories.h>)
endif()

function(spillway_torch_pch target)
  if(SPILLWAY_TORCH_PCH)
    target_precompile_headers(${target} REUSE_FROM spillway_torch_pch)
  endif()
endfunction()
