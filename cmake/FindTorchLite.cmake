# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# The libtorch inside the torch package of SPILLWAY_PYTHON. torch's own find_package(Torch) asks for
# a CUDA toolkit as soon as the wheel is a CUDA build; host code needs three paths only.
#
#   torch_lite          headers, libtorch_cpu, libc10
#
# Nothing is cached but SPILLWAY_PYTHON: another Python means another configure, not another folder.
execute_process(
  COMMAND ${SPILLWAY_PYTHON} -I ${CMAKE_SOURCE_DIR}/tools/find_torch.py
  OUTPUT_VARIABLE torch_found RESULT_VARIABLE torch_status OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET)
if(torch_status EQUAL 0)
  list(GET torch_found 0 TorchLite_VERSION)
  list(GET torch_found 1 TorchLite_ROOT)
endif()

set(TorchLite_INCLUDE_DIRS ${TorchLite_ROOT}/include ${TorchLite_ROOT}/include/torch/csrc/api/include)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchLite
  REQUIRED_VARS TorchLite_ROOT VERSION_VAR TorchLite_VERSION
  REASON_FAILURE_MESSAGE "no torch in ${SPILLWAY_PYTHON}: run make setup")

if(TorchLite_FOUND AND NOT TARGET torch_lite)
  # The wheels are built so; our own code has to agree about std::string.
  file(STRINGS ${TorchLite_ROOT}/lib/libc10.so new_abi REGEX "__cxx11" LIMIT_COUNT 1)
  if(new_abi)
    set(TorchLite_CXX11_ABI 1)
  else()
    set(TorchLite_CXX11_ABI 0)
  endif()
  foreach(lib IN ITEMS c10 torch_cpu)
    add_library(torch_lite_${lib} SHARED IMPORTED)
    set_target_properties(torch_lite_${lib} PROPERTIES
      IMPORTED_LOCATION ${TorchLite_ROOT}/lib/lib${lib}.so)
  endforeach()
  add_library(torch_lite INTERFACE IMPORTED)
  target_include_directories(torch_lite INTERFACE ${TorchLite_INCLUDE_DIRS})
  # NDEBUG: as in the wheels; without it some inline functions of the headers differ.
  target_compile_definitions(torch_lite INTERFACE
    NDEBUG _GLIBCXX_USE_CXX11_ABI=${TorchLite_CXX11_ABI})
  target_link_libraries(torch_lite INTERFACE torch_lite_torch_cpu torch_lite_c10)
  if(SPILLWAY_SANITIZE MATCHES "undefined")
    # torch's type information is not visible to us.
    target_compile_options(torch_lite INTERFACE -fno-sanitize=vptr)
  endif()
endif()
