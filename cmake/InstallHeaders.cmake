# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
#
# Run by `cmake --install`: the headers of include/spillway, and those of src/ that they include, under
# one folder. There "base/units.h" is called "spillway/base/units.h", so that no other project's folder
# `base` can be meant.
#
#   source    the root of the tree
#   scratch   a folder for the headers as they are installed
cmake_policy(VERSION 3.25)

file(GLOB waiting RELATIVE ${source}/include/spillway ${source}/include/spillway/*.h)
set(done)
file(REMOVE_RECURSE ${scratch})
while(waiting)
  list(POP_FRONT waiting name)
  list(APPEND done ${name})
  if(EXISTS ${source}/include/spillway/${name})
    file(READ ${source}/include/spillway/${name} text)
  else()
    file(READ ${source}/src/${name} text)
  endif()
  string(REGEX MATCHALL "#include \"[a-z_]+/[a-z_0-9]+\\.h\"" includes "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "#include \"(spillway/)?(.*)\"" "\\2" included "${include}")
    if(NOT included IN_LIST done AND NOT included IN_LIST waiting)
      list(APPEND waiting ${included})
    endif()
  endforeach()
  string(REGEX REPLACE "#include \"(spillway/)?([a-z_]+[/a-z_0-9]*\\.h)\"" "#include \"spillway/\\2\"" text "${text}")
  file(WRITE ${scratch}/spillway/${name} "${text}")
endwhile()
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/include TYPE DIRECTORY FILES ${scratch}/spillway)
