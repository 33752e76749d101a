# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# The functions that keep every folder's CMakeLists.txt at two lines:
#
#   spillway_folder(tier DEPS base LIBS uring xxhash)   src/tier/*.cc -> spillway_tier (+ _test)
#   spillway_shared_folder(...)                         the same, as a shared library
#   spillway_tests(golden DEPS tier mover)              *_test.cc here -> spillway_golden_test
#   spillway_program(spillway DEPS base LIBS cli11)     *.cc here -> bin/spillway
#   spillway_benches(DEPS tier LIBS ...)                every *_bench.cc here -> bin/<name>
#
# DEPS are folders, LIBS are dep_<name> of SpillwayDependencies.cmake. A folder that does not exist
# yet is skipped quietly, in both places.

# When a test is said to hang. It judges no time: a test that takes minutes alone may share the machine.
set(SPILLWAY_HANG_SECONDS 3600)

function(spillway_add_subdirectory dir)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt)
    add_subdirectory(${dir})
  endif()
endfunction()

# The sources of this folder and of the folders in it: `out_sources` are what ships,
# `out_tests` are *_test.cc. Neither has those that match SPILLWAY_LEFT_OUT, where the folder sets it.
function(spillway_glob out_sources out_tests)
  set(here ${CMAKE_CURRENT_SOURCE_DIR})
  file(GLOB sources CONFIGURE_DEPENDS ${here}/*.cc ${here}/*/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${here}/*_test.cc ${here}/*/*_test.cc)
  if(sources AND tests)
    list(REMOVE_ITEM sources ${tests})
  endif()
  list(FILTER sources EXCLUDE REGEX "_bench\\.cc$")
  if(SPILLWAY_LEFT_OUT)
    list(FILTER sources EXCLUDE REGEX "${SPILLWAY_LEFT_OUT}")
    list(FILTER tests EXCLUDE REGEX "${SPILLWAY_LEFT_OUT}")
  endif()
  set(${out_sources} ${sources} PARENT_SCOPE)
  set(${out_tests} ${tests} PARENT_SCOPE)
endfunction()

# The folders that see torch. `late` is tests/late, which needs torch and nothing of ours.
set(SPILLWAY_TORCH_FOLDERS torch_driver train late)

# Whether one of `deps` sees torch.
function(spillway_sees_torch out deps)
  set(${out} FALSE PARENT_SCOPE)
  foreach(dep IN LISTS SPILLWAY_TORCH_FOLDERS)
    if(dep IN_LIST deps)
      set(${out} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# Links `target` with the folders of `deps`. What sees torch gets the whole core from the one copy
# inside libspillway.so; everything else gets the static libraries.
function(spillway_link target scope deps libs)
  target_link_libraries(${target} ${scope} spillway_flags)
  spillway_sees_torch(sees_torch "${deps}")
  foreach(dep IN LISTS deps)
    if(NOT sees_torch OR dep IN_LIST SPILLWAY_TORCH_FOLDERS)
      target_link_libraries(${target} ${scope} $<TARGET_NAME_IF_EXISTS:spillway_${dep}>)
    endif()
  endforeach()
  list(REMOVE_ITEM libs "")
  foreach(lib IN LISTS libs)
    target_link_libraries(${target} ${scope} dep_${lib})
  endforeach()
endfunction()

if(SPILLWAY_TESTS)
  add_custom_target(spillway_sanitized_tests)  # what `make test` runs under AddressSanitizer and UBSan
  add_library(spillway_test_paths STATIC ${CMAKE_SOURCE_DIR}/tests/test_paths.cc)
  target_include_directories(spillway_test_paths PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(spillway_test_paths PRIVATE
    SPILLWAY_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SPILLWAY_BINARY_DIR="${CMAKE_BINARY_DIR}")
endif()

# How tests are compiled. UBSan is for what they test: it takes a third of the time of compiling them.
function(spillway_compile_tests target deps libs)
  spillway_link(${target} PRIVATE "${deps}" "${libs};gtest;threads")
  target_link_libraries(${target} PRIVATE spillway_test_paths)
  spillway_sees_torch(sees_torch "${deps}")
  # Most of what is compiled of a test is headers: where these are torch's, or nobody waits for one file, several share
  # them.
  if(sees_torch OR SPILLWAY_SANITIZE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  else()
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(SPILLWAY_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
  if(sees_torch)
    target_compile_options(${target} PRIVATE -O1)  # a fifth less to compile; no time of theirs counts
    spillway_torch_pch(${target})
  endif()
endfunction()

# One gtest executable, one ctest entry; the counts come from its XML (tools/count_tests.py). Torch's
# threads do not spin while they wait, so that two tests can share two cores.
function(spillway_gtest name sources deps libs)
  spillway_sees_torch(sees_torch "${deps}")
  if(NOT sees_torch AND NOT SPILLWAY_CORE_TESTS)
    return()
  endif()
  add_executable(spillway_${name}_test ${sources})
  spillway_compile_tests(spillway_${name}_test "${deps}" "${libs}")
  set_target_properties(spillway_${name}_test PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND spillway_${name}_test
    --gtest_output=xml:${CMAKE_BINARY_DIR}/results/${name}.xml --gtest_brief=1)
  set(label core)
  if(sees_torch)
    set(label torch)
  endif()
  if(NOT sees_torch OR name MATCHES "^(torch_driver|late_torch)$")  # where lifetimes break
    list(APPEND label sanitized)
    add_dependencies(spillway_sanitized_tests spillway_${name}_test)
  endif()
  set(options ${CMAKE_SOURCE_DIR}/tools/sanitizers)
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${SPILLWAY_HANG_SECONDS} SKIP_RETURN_CODE 77
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    ENVIRONMENT "OMP_WAIT_POLICY=PASSIVE;ASAN_OPTIONS=include=${options}/asan.options;UBSAN_OPTIONS=include=${options}/ubsan.options;LSAN_OPTIONS=suppressions=${options}/lsan.supp;TSAN_OPTIONS=include=${options}/tsan.options:suppressions=${options}/tsan.supp")
endfunction()

function(spillway_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;LIBS")
  spillway_glob(sources tests)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h ${CMAKE_CURRENT_SOURCE_DIR}/*/*.h)
  if(sources)
    add_library(spillway_${name} STATIC ${sources})
    spillway_link(spillway_${name} PUBLIC "${arg_DEPS}" "${arg_LIBS};threads")
    set_property(GLOBAL APPEND PROPERTY SPILLWAY_ARCHIVES spillway_${name})
    set(scope PUBLIC)
  else()
    add_library(spillway_${name} INTERFACE)
    spillway_link(spillway_${name} INTERFACE "${arg_DEPS}" "${arg_LIBS};threads")
    set(scope INTERFACE)
  endif()
  set_property(GLOBAL APPEND PROPERTY SPILLWAY_CORE_LIBS ${arg_LIBS})
  if(headers)
    spillway_verify_headers(spillway_${name} ${scope} "${headers}")
  endif()
  if(tests AND SPILLWAY_TESTS)
    spillway_gtest(${name} "${tests}" "${name};${arg_DEPS}" "${arg_LIBS}")
  endif()
endfunction()

# torch_driver and train: shared libraries that see torch. libspillway.so (OUTPUT spillway) carries
# the one copy of the whole core; whoever links it links no core archive of its own.
function(spillway_shared_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT" "DEPS;LIBS")
  set(target spillway_${name})
  spillway_glob(sources tests)
  if(NOT sources)
    return()
  endif()
  add_library(${target} SHARED ${sources})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_OUTPUT} DEFINE_SYMBOL "")
  target_link_options(${target} PRIVATE -Wl,-z,nodelete -Wl,--no-undefined)
  target_link_libraries(${target} PUBLIC spillway_flags torch_lite)
  if(TARGET spillway_torch_driver AND "torch_driver" IN_LIST arg_DEPS)
    target_link_libraries(${target} PUBLIC spillway_torch_driver)
  else()
    spillway_embed_core(${target})
  endif()
  foreach(lib IN LISTS arg_LIBS)
    target_link_libraries(${target} PUBLIC dep_${lib})
  endforeach()
  if("torch_driver" IN_LIST arg_DEPS OR SPILLWAY_TORCH_PCH STREQUAL "ALL")
    spillway_torch_pch(${target})
  endif()
  if(tests AND SPILLWAY_TESTS)
    spillway_gtest(${name} "${tests}" "${name};${arg_DEPS}" "${arg_LIBS}")
  endif()
endfunction()

# Puts every core archive, whole, into the shared library `target`, and what the core links beside it.
function(spillway_embed_core target)
  get_property(archives GLOBAL PROPERTY SPILLWAY_ARCHIVES)
  get_property(libs GLOBAL PROPERTY SPILLWAY_CORE_LIBS)
  list(REMOVE_DUPLICATES libs)
  if(archives)
    list(TRANSFORM archives REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
    list(JOIN files "," whole)
    target_link_libraries(${target} PRIVATE "-Wl,--whole-archive,${whole},--no-whole-archive")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${files})
    add_dependencies(${target} ${archives})
  endif()
  foreach(lib IN LISTS libs ITEMS threads)
    target_link_libraries(${target} PUBLIC dep_${lib})
  endforeach()
endfunction()

# Each header compiles alone: built by the target all_verify_interface_header_sets.
function(spillway_verify_headers target scope headers)
  target_sources(${target} ${scope} FILE_SET own_headers TYPE HEADERS
    BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${headers})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

function(spillway_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;LIBS;SOURCES")
  spillway_glob(sources tests)
  if(arg_SOURCES)
    set(tests ${arg_SOURCES})
  endif()
  if(tests)
    spillway_gtest(${name} "${tests}" "${arg_DEPS}" "${arg_LIBS}")
  endif()
endfunction()

function(spillway_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;LIBS")
  spillway_glob(sources tests)
  if(sources)
    add_executable(spillway_cli ${sources})
    spillway_link(spillway_cli PRIVATE "${arg_DEPS}" "${arg_LIBS}")
    set_target_properties(spillway_cli PROPERTIES OUTPUT_NAME ${name})
  endif()
  if(tests AND SPILLWAY_TESTS)
    list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
    spillway_gtest(cli "${tests};${sources}" "${arg_DEPS}" "${arg_LIBS}")
  endif()
endfunction()

# Every *_bench.cc of this folder is a program of its own; *_torch_bench.cc sees torch.
function(spillway_benches)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "DEPS;TORCH_DEPS;LIBS")
  file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_bench.cc)
  foreach(bench IN LISTS benches)
    get_filename_component(name ${bench} NAME_WE)
    set(deps ${arg_DEPS})
    if(name MATCHES "_torch_bench$")
      if(NOT SPILLWAY_TORCH)
        continue()
      endif()
      set(deps ${arg_TORCH_DEPS})
    endif()
    add_executable(spillway_${name} ${bench})
    spillway_link(spillway_${name} PRIVATE "${deps}" "${arg_LIBS};threads")
    set_target_properties(spillway_${name} PROPERTIES OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
    if(name MATCHES "_torch_bench$")
      spillway_torch_pch(spillway_${name})
    endif()
  endforeach()
endfunction()
