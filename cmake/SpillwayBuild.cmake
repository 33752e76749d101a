# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# Settings of the whole tree: language, output folders, ccache, sanitizers.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# One kind of object file everywhere, so that programs and libraries share a precompiled header.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

# ccache where present. The sloppiness is what it asks for to cache a use of a precompiled header; paths
# in the tree are relative to it, so that builds with the same flags (another torch's, pip's) share files.
find_program(SPILLWAY_CCACHE ccache)
mark_as_advanced(SPILLWAY_CCACHE)
if(SPILLWAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${SPILLWAY_CCACHE})
endif()

# g++ collects its own garbage each time its heap has grown by some: an eighth of the time of a file that
# sees torch. From 1 GB on is enough; a file takes up to 2 GB either way.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>)
endif()

if(SPILLWAY_SANITIZE)
  add_compile_options(-fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SPILLWAY_SANITIZE})
  add_compile_definitions(SPILLWAY_SANITIZED=1)
endif()

if(SPILLWAY_MUTANTS)
  add_compile_definitions(SPILLWAY_MUTANTS=1)
endif()

enable_testing()

# What every target of ours compiles with: "tier/tier.h" and <spillway/session.h>.
add_library(spillway_flags INTERFACE)
target_compile_features(spillway_flags INTERFACE cxx_std_20)
target_include_directories(spillway_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
