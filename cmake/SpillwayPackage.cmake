# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts into a prefix for C++ programs (docs/cpp.md): the public headers, both
# libraries, the program, and a configuration for find_package(Spillway). The Python package is a
# component of its own, which only pip asks for (python/CMakeLists.txt).
include(CMakePackageConfigHelpers)

set(config ${CMAKE_BINARY_DIR}/package)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/SpillwayConfig.cmake.in ${config}/SpillwayConfig.cmake
  INSTALL_DESTINATION lib/cmake/Spillway NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${config}/SpillwayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${config}/SpillwayConfig.cmake ${config}/SpillwayConfigVersion.cmake
  DESTINATION lib/cmake/Spillway)
install(TARGETS spillway_torch_driver spillway_train LIBRARY DESTINATION lib)
install(TARGETS spillway_cli RUNTIME DESTINATION bin)
install(CODE "set(source ${CMAKE_SOURCE_DIR})\nset(scratch ${config}/include)")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake)
