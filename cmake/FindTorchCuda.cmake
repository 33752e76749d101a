# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# The CUDA part of the torch that FindTorchLite found, from its wheels alone: no toolkit, no nvcc, no
# driver. libtorch_cuda (a gigabyte) is not linked; a program loads it when it asks for a GPU.
#
#   dep_cudart          the CUDA runtime and its headers
#   torch_cuda_lite     torch_lite, libc10_cuda and dep_cudart
#
# Where the torch is a build without CUDA, one line says so and neither target exists.
execute_process(
  COMMAND ${SPILLWAY_PYTHON} -I ${CMAKE_SOURCE_DIR}/tools/find_torch.py --cuda
  OUTPUT_VARIABLE cuda_found RESULT_VARIABLE cuda_status OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET)
set(TorchCuda_FOUND FALSE)
if(cuda_status EQUAL 0)
  set(TorchCuda_FOUND TRUE)
  list(POP_FRONT cuda_found TorchCuda_RUNTIME)
  set(TorchCuda_INCLUDE_DIRS ${cuda_found})
  string(REGEX REPLACE ".*\\.so\\.([0-9]+).*" "\\1" TorchCuda_MAJOR "${TorchCuda_RUNTIME}")
else()
  message(STATUS "spillway: built without CUDA: ${cuda_found}")
endif()

if(TorchCuda_FOUND AND NOT TARGET torch_cuda_lite)
  add_library(torch_lite_cudart SHARED IMPORTED)
  set_target_properties(torch_lite_cudart PROPERTIES IMPORTED_LOCATION ${TorchCuda_RUNTIME})
  spillway_dep(cudart torch_lite_cudart)
  target_include_directories(dep_cudart SYSTEM INTERFACE ${TorchCuda_INCLUDE_DIRS})
  add_library(torch_lite_c10_cuda SHARED IMPORTED)
  set_target_properties(torch_lite_c10_cuda PROPERTIES
    IMPORTED_LOCATION ${TorchLite_ROOT}/lib/libc10_cuda.so)
  add_library(torch_cuda_lite INTERFACE IMPORTED)
  target_link_libraries(torch_cuda_lite INTERFACE torch_lite torch_lite_c10_cuda dep_cudart)
endif()
