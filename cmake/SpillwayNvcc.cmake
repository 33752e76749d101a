# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# Kernels of our own, compiled where an nvcc is found that fits the CUDA runtime of torch's wheels.
# nvcc is called as a plain command: CMake's CUDA language would end the configure where it is not.
#
#   SPILLWAY_NVCC                         nvcc, or empty: one line says why kernels are left out
#   spillway_add_kernels(target a.cu)     adds the objects of these files to `target`; no product is
#                                         fused with a sum: bits are those of the host

# Under a sanitizer, where no kernel is launched, one of them is enough.
set(SPILLWAY_CUDA_ARCHITECTURES 80 86 90 CACHE STRING
  "The GPUs that get code; newer ones compile the PTX of the last at their first launch")
if(SPILLWAY_SANITIZE)
  set(SPILLWAY_CUDA_ARCHITECTURES 90)
endif()

# Why this nvcc cannot be used, or nothing: another release than the runtime's, or a host compiler
# that it refuses.
function(spillway_nvcc_fault out nvcc)
  set(${out} "" PARENT_SCOPE)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)" release "${version}")
  if(NOT CMAKE_MATCH_1 STREQUAL TorchCuda_MAJOR)
    set(${out} "${nvcc} is of CUDA ${CMAKE_MATCH_1}, torch of CUDA ${TorchCuda_MAJOR}" PARENT_SCOPE)
    return()
  endif()
  set(probe ${CMAKE_BINARY_DIR}/nvcc_probe.cu)
  file(WRITE ${probe} "#include <variant>\n__global__ void probe() {}\n")
  execute_process(
    COMMAND ${nvcc} -std=c++20 -ccbin ${CMAKE_CXX_COMPILER} -arch=sm_90 -c ${probe} -o ${probe}.o
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(${out} "${nvcc} does not work with ${CMAKE_CXX_COMPILER}" PARENT_SCOPE)
  endif()
endfunction()

find_program(SPILLWAY_NVCC_PROGRAM nvcc PATHS /usr/local/cuda/bin)
mark_as_advanced(SPILLWAY_NVCC_PROGRAM)
set(SPILLWAY_NVCC "")
if(SPILLWAY_NVCC_PROGRAM)
  spillway_nvcc_fault(nvcc_fault ${SPILLWAY_NVCC_PROGRAM})
  if(NOT nvcc_fault)
    set(SPILLWAY_NVCC ${SPILLWAY_NVCC_PROGRAM})
  endif()
else()
  set(nvcc_fault "no nvcc in PATH or /usr/local/cuda/bin")
endif()
if(nvcc_fault)
  message(STATUS "spillway: CUDA kernels are left out: ${nvcc_fault}")
endif()

function(spillway_add_kernels target)
  set(code)
  foreach(architecture IN LISTS SPILLWAY_CUDA_ARCHITECTURES)
    list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET SPILLWAY_CUDA_ARCHITECTURES -1 newest)
  list(APPEND code -gencode arch=compute_${newest},code=compute_${newest})
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${SPILLWAY_NVCC} -std=c++20 -O2 --fmad=false --threads 4 ${code} -ccbin ${CMAKE_CXX_COMPILER}
        -Xcompiler=-fPIC,-Wall,-Wextra --expt-relaxed-constexpr -I${CMAKE_SOURCE_DIR}/src
        -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      MAIN_DEPENDENCY ${source} DEPFILE ${object}.d
      COMMENT "Building CUDA object ${name}.o" VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
