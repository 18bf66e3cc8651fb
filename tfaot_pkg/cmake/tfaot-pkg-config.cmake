# The CMake package of tfaot-pkg:
#
#   tfaot_require     models from a registry, fetched when a project is configured    tfaot-require.cmake
#   tfaot_add_model   models of the project's own, compiled when it is built          tfaot-add-model.cmake
#
#   cmake -Dtfaot-pkg_DIR="$(tfaot-pkg cmake-dir)" ...
#
# TFAOT_PKG_COMMAND is the command (a list) that runs the tool. By default it is the program beside the Python in which
# this file is installed, else the tfaot-pkg on the PATH.

cmake_policy(PUSH)
cmake_policy(VERSION 3.15...4.0)

set(TFAOT_PKG_COMMAND "" CACHE STRING "Command that runs tfaot-pkg (empty: found by itself)")
mark_as_advanced(TFAOT_PKG_COMMAND)
set_property(GLOBAL PROPERTY TFAOT_PKG_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")

# Stop with an error about the call in TFAOT_CALL.
function(_tfaot_fail MESSAGE HINT)
  # CMake wraps lines, except those that begin with blanks.
  string(REPLACE "\n" "\n  " text "${MESSAGE}\nhint: ${HINT}")
  message(FATAL_ERROR "${TFAOT_CALL}\n  ${text}\n")
endfunction()

# The command that runs the tool. Called only when there is something to do: a configured project needs no tool.
function(_tfaot_command OUT)
  if(TFAOT_PKG_COMMAND)
    set(${OUT} "${TFAOT_PKG_COMMAND}" PARENT_SCOPE)
    return()
  endif()
  # Installed, this file is in PREFIX/lib/pythonX.Y/site-packages/tfaot_pkg/cmake, and the program in PREFIX/bin.
  get_property(here GLOBAL PROPERTY TFAOT_PKG_CMAKE_DIR)
  set(program "")
  set(beside "")
  if(here MATCHES "^(.*)/lib[^/]*/python[0-9.]*/[a-z]+-packages/tfaot_pkg/cmake$")
    set(beside "${CMAKE_MATCH_1}/bin")
    set(program "${beside}/tfaot-pkg")
  endif()
  if(NOT EXISTS "${program}")
    find_program(TFAOT_PKG_PROGRAM tfaot-pkg)
    mark_as_advanced(TFAOT_PKG_PROGRAM)
    set(program "${TFAOT_PKG_PROGRAM}")
  endif()
  if(NOT program)
    _tfaot_fail("the program tfaot-pkg was found neither beside this package (${beside}) nor on the PATH"
      "activate the Python environment that it is installed in, or say -DTFAOT_PKG_COMMAND=/path/to/tfaot-pkg")
  endif()
  set(${OUT} "${program}" PARENT_SCOPE)
endfunction()

include("${CMAKE_CURRENT_LIST_DIR}/tfaot-require.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/tfaot-add-model.cmake")

cmake_policy(POP)
