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

# One libstdc++ a process. A compiler that has only the static one at hand, or is told to take it, would
# put a second one into libspillway.so, whose locales are not those of torch's: in Python the first number
# that is written to a stream ends the process.
function(spillway_share_libstdcxx)
  set(probe ${CMAKE_BINARY_DIR}/libstdcxx_probe)
  file(WRITE ${probe}.cc "#include <sstream>\n#ifndef __GLIBCXX__\n#error another library\n#endif\n"
    "std::string text(long n) { std::ostringstream s; s << n; return s.str(); }\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -shared -fPIC ${probe}.cc -o ${probe}.so
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    return()
  endif()
  file(STRINGS ${probe}.so named REGEX "libstdc\\+\\+\\.so\\.6" LIMIT_COUNT 1)
  if(named)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so.6
    OUTPUT_VARIABLE beside OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  cmake_path(GET beside PARENT_PATH beside)
  find_library(SPILLWAY_LIBSTDCXX NAMES libstdc++.so.6 HINTS ${beside})
  mark_as_advanced(SPILLWAY_LIBSTDCXX)
  if(NOT SPILLWAY_LIBSTDCXX)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} links libstdc++ statically, and no libstdc++.so.6 was found")
  endif()
  # Before the static one, which then has nothing to give that this has.
  set(CMAKE_CXX_STANDARD_LIBRARIES "${SPILLWAY_LIBSTDCXX} ${CMAKE_CXX_STANDARD_LIBRARIES}" PARENT_SCOPE)
  message(STATUS "spillway: ${CMAKE_CXX_COMPILER} links libstdc++ statically; ${SPILLWAY_LIBSTDCXX} is used instead")
endfunction()
spillway_share_libstdcxx()

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
