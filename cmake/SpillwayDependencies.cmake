# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# External libraries, each as one interface target dep_<name>; a folder names them after LIBS.
# All are Debian packages (tools/packages.txt).

function(spillway_dep name)
  add_library(dep_${name} INTERFACE)
  target_link_libraries(dep_${name} INTERFACE ${ARGN})
endfunction()

# A C library without a CMake package of its own.
function(spillway_dep_plain name header library package)
  find_path(SPILLWAY_${name}_INCLUDE ${header})
  find_library(SPILLWAY_${name}_LIBRARY ${library})
  mark_as_advanced(SPILLWAY_${name}_INCLUDE SPILLWAY_${name}_LIBRARY)
  if(NOT SPILLWAY_${name}_INCLUDE OR NOT SPILLWAY_${name}_LIBRARY)
    message(FATAL_ERROR "lib${library} is missing; on Debian: apt-get install ${package}")
  endif()
  spillway_dep(${name} ${SPILLWAY_${name}_LIBRARY})
  target_include_directories(dep_${name} SYSTEM INTERFACE ${SPILLWAY_${name}_INCLUDE})
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
spillway_dep(threads Threads::Threads)
spillway_dep(dl ${CMAKE_DL_LIBS})
spillway_dep(fmt fmt::fmt)
spillway_dep(json nlohmann_json::nlohmann_json)
spillway_dep(cli11 CLI11::CLI11)
spillway_dep_plain(uring liburing.h uring liburing-dev)
spillway_dep_plain(xxhash xxhash.h xxhash libxxhash-dev)
spillway_dep_plain(hwy hwy/highway.h hwy libhwy-dev)
spillway_dep_plain(zstd zstd.h zstd libzstd-dev)
if(SPILLWAY_TESTS)
  find_package(GTest REQUIRED)
  spillway_dep(gtest GTest::gtest_main)
endif()
if(SPILLWAY_BENCH)
  find_package(benchmark REQUIRED)
  spillway_dep(benchmark benchmark::benchmark)
endif()
