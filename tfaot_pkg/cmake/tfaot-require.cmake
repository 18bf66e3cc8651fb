# tfaot_require: models from a registry, fetched when a project is configured.
#
#   find_package(tfaot-pkg REQUIRED)     # cmake -Dtfaot-pkg_DIR="$(tfaot-pkg cmake-dir)" ...
#   tfaot_require(tfaot-model-digits VERSION 1.0 REGISTRY hep)
#   target_link_libraries(program PRIVATE tfaot-model-digits::tfaot-model-digits)
#
# tfaot_require(NAME
#   [VERSION version]      1.0: any 1.x from 1.0 on, as find_package has it; or a range: ">=1,<3", "==1.2"
#   [REGISTRY registry]    a name, folder (relative to this CMakeLists.txt) or address; default: the user's own registry
#   [LOCK file]            install exactly the version of NAME in this lock file (tfaot-pkg resolve)
#   [TARGETS target...]    only versions with code for all of these, such as x86-64-v3
#   [TOOLCHAIN range]      only versions compiled by such a TensorFlow
#   [COMPONENTS static|shared]
#   [OFFLINE])             use no network
#
# The package is verified and installed into TFAOT_PREFIX (default: tfaot-packages in the build folder), which is added
# to CMAKE_PREFIX_PATH. Configuring again does nothing as long as the arguments, the lock file and what
# is installed stay the same; TFAOT_UPDATE=ON asks the registry again, once.
#
# Variables: TFAOT_PREFIX, TFAOT_UPDATE.

option(TFAOT_UPDATE "Ask the registries for newer versions at the next configuration" OFF)

# NAME and VERSION as a requirement of the tool.
function(_tfaot_requirement OUT)
  if(VERSION STREQUAL "" OR VERSION MATCHES "^[<>=!~]")
    set(${OUT} "${TFAOT_NAME}${VERSION}" PARENT_SCOPE)
  else()
    string(REGEX MATCH "^[0-9]+" major "${VERSION}")
    math(EXPR next "${major} + 1")
    set(${OUT} "${TFAOT_NAME}>=${VERSION},<${next}" PARENT_SCOPE)
  endif()
endfunction()

# Run the tool with these arguments; if it fails, stop with its output.
function(_tfaot_run)
  _tfaot_command(command)
  execute_process(
    COMMAND ${command} ${ARGN}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(result STREQUAL "0")
    string(STRIP "${output}" output)
    message(STATUS "${output}")
    return()
  endif()
  set(words "")
  foreach(word IN LISTS command ARGN)
    string(REPLACE "'" "'\\''" word "${word}")
    string(APPEND words " '${word}'")
  endforeach()
  string(STRIP "${output}${errors}" errors)
  _tfaot_fail("tfaot-pkg failed (${result}):\n${errors}" "to repeat it: cd '${CMAKE_CURRENT_SOURCE_DIR}' &&${words}")
endfunction()

# The former spelling of the package NAME, which had the _ of the model's name.
function(_tfaot_former OUT NAME)
  string(REGEX REPLACE "^tfaot-model-" "" model "${NAME}")
  string(REPLACE "-" "_" model "${model}")
  set(${OUT} "tfaot-model-${model}" PARENT_SCOPE)
endfunction()

# The state that decides whether to install: the arguments, the lock file and the installed manifest.
function(_tfaot_state OUT)
  set(state "${ARGN}")
  _tfaot_former(former "${TFAOT_NAME}")
  foreach(file IN ITEMS "${LOCK}" "${TFAOT_PREFIX}/share/${TFAOT_NAME}/manifest.json"
      "${TFAOT_PREFIX}/share/${former}/manifest.json")
    set(digest none)
    if(file AND EXISTS "${file}")
      file(SHA256 "${file}" digest)
    endif()
    string(APPEND state "\n${digest}")
  endforeach()
  set(${OUT} "${state}" PARENT_SCOPE)
endfunction()

# The arguments for the tool.
function(_tfaot_arguments OUT)
  set(arguments install --prefix "${TFAOT_PREFIX}")
  if(NOT LOCK STREQUAL "")
    if(TARGETS OR NOT TOOLCHAIN STREQUAL "")
      _tfaot_fail("TARGETS and TOOLCHAIN do not go with LOCK" "tfaot-pkg resolve --target --toolchain locks them")
    endif()
    list(APPEND arguments --locked --lock "${LOCK}" "${TFAOT_NAME}")
  else()
    _tfaot_requirement(requirement)
    list(APPEND arguments "${requirement}")
  endif()
  foreach(target IN LISTS TARGETS)
    list(APPEND arguments --target "${target}")
  endforeach()
  if(NOT TOOLCHAIN STREQUAL "")
    list(APPEND arguments --toolchain "${TOOLCHAIN}")
  endif()
  if(NOT REGISTRY STREQUAL "")
    list(APPEND arguments --registry "${REGISTRY}")
  endif()
  if(OFFLINE)
    list(APPEND arguments --offline)
  endif()
  set(${OUT} "${arguments}" PARENT_SCOPE)
endfunction()

# Whether this configuration asks the registries again.
function(_tfaot_updating OUT)
  if(TFAOT_UPDATE)
    set_property(GLOBAL PROPERTY TFAOT_UPDATING ON)
    set_property(CACHE TFAOT_UPDATE PROPERTY VALUE OFF)
  endif()
  get_property(updating GLOBAL PROPERTY TFAOT_UPDATING)
  set(${OUT} "${updating}" PARENT_SCOPE)
endfunction()

# Install the package into TFAOT_PREFIX, unless that is done.
function(_tfaot_fetch)
  _tfaot_arguments(arguments)
  get_property(first GLOBAL PROPERTY "TFAOT_ARGUMENTS_${TFAOT_NAME}")
  if(first STREQUAL "${arguments}")
    return()
  endif()
  if(first)
    # A prefix holds one version: the one that another part of this project fetched must serve here too.
    if(VERSION MATCHES "^[<>=!~]")
      get_property(where GLOBAL PROPERTY "TFAOT_REQUIRED_BY_${TFAOT_NAME}")
      _tfaot_fail("it was required with other arguments in ${where}"
        "say the same in both places, or VERSION with a version in place of a range")
    endif()
    return()
  endif()
  set(stamp "${CMAKE_BINARY_DIR}/CMakeFiles/tfaot/${TFAOT_NAME}.stamp")
  set(before "")
  if(EXISTS "${stamp}")
    file(READ "${stamp}" before)
  endif()
  _tfaot_state(state ${arguments})
  _tfaot_updating(updating)
  if(updating OR NOT before STREQUAL state)
    _tfaot_run(${arguments})
    _tfaot_state(state ${arguments})
    file(WRITE "${stamp}" "${state}")
  endif()
  set_property(GLOBAL PROPERTY "TFAOT_ARGUMENTS_${TFAOT_NAME}" "${arguments}")
  set_property(GLOBAL PROPERTY "TFAOT_REQUIRED_BY_${TFAOT_NAME}" "${CMAKE_CURRENT_SOURCE_DIR}")
endfunction()

# Everything except finding the package; sets its prefix and the version for find_package.
function(_tfaot_install TFAOT_NAME)
  set(TFAOT_CALL "tfaot_require(${TFAOT_NAME})")
  cmake_parse_arguments(PARSE_ARGV 1 "" "OFFLINE" "VERSION;REGISTRY;LOCK;TOOLCHAIN" "TARGETS;COMPONENTS")
  if(_UNPARSED_ARGUMENTS OR _KEYWORDS_MISSING_VALUES)
    _tfaot_fail("unknown or empty arguments: ${_UNPARSED_ARGUMENTS} ${_KEYWORDS_MISSING_VALUES}"
      "known are VERSION, REGISTRY, LOCK, TARGETS, TOOLCHAIN, COMPONENTS, OFFLINE, each with a value but the last")
  endif()
  foreach(name IN ITEMS VERSION REGISTRY LOCK TOOLCHAIN TARGETS COMPONENTS OFFLINE)
    set(${name} "${_${name}}")
  endforeach()
  if(NOT TFAOT_NAME MATCHES "^tfaot-model-[a-z0-9_-]+$")
    _tfaot_fail("that is not the name of a package" "write tfaot-model-NAME")
  endif()
  string(REPLACE "_" "-" TFAOT_NAME "${TFAOT_NAME}")
  if(NOT VERSION MATCHES "^([0-9]+(\\.[0-9]+)*|[<>=!~].*)?$")
    _tfaot_fail("VERSION ${VERSION} is neither a version nor a range" "write VERSION 1.0, or VERSION \">=1,<3\"")
  endif()
  if(NOT TFAOT_PREFIX)
    set(TFAOT_PREFIX "${CMAKE_BINARY_DIR}/tfaot-packages")
  endif()
  if(NOT LOCK STREQUAL "")
    get_filename_component(LOCK "${LOCK}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${LOCK}")
  endif()
  _tfaot_fetch()
  # A version that was published under the former spelling is installed under it, and has no files under this one.
  _tfaot_former(former "${TFAOT_NAME}")
  if(EXISTS "${TFAOT_PREFIX}/share/${TFAOT_NAME}/manifest.json" OR NOT EXISTS "${TFAOT_PREFIX}/share/${former}/manifest.json")
    set(former "")
  endif()
  set(_tfaot_installed "${former}" PARENT_SCOPE)
  set(_tfaot_prefix "${TFAOT_PREFIX}" PARENT_SCOPE)
  set(_tfaot_components "${COMPONENTS}" PARENT_SCOPE)
  set(_tfaot_version "" PARENT_SCOPE)
  if(VERSION MATCHES "^[0-9]")
    set(_tfaot_version "${VERSION}" PARENT_SCOPE)
  endif()
endfunction()

# Stop with an error if find_package did not find the package in the right version.
function(_tfaot_check TFAOT_NAME)
  if(${TFAOT_NAME}_FOUND)
    return()
  endif()
  set(TFAOT_CALL "tfaot_require(${TFAOT_NAME})")
  string(REPLACE "_" "-" name "${TFAOT_NAME}")
  get_property(where GLOBAL PROPERTY "TFAOT_REQUIRED_BY_${name}")
  set(reason "${${TFAOT_NAME}_NOT_FOUND_MESSAGE}")
  if(NOT reason)
    set(reason "version ${${TFAOT_NAME}_CONSIDERED_VERSIONS} was fetched for ${where}, and VERSION ${_tfaot_version} is required")
  endif()
  _tfaot_fail("${reason} (in ${_tfaot_prefix})" "require versions that one package can serve, or lock another version")
endfunction()

macro(tfaot_require NAME)
  _tfaot_install(${NAME} ${ARGN})
  if(NOT "${_tfaot_prefix}" IN_LIST CMAKE_PREFIX_PATH)
    list(INSERT CMAKE_PREFIX_PATH 0 "${_tfaot_prefix}")
  endif()
  # Another copy that was found earlier would win over the one that was fetched and verified.
  if(NOT _tfaot_installed)
    set(_tfaot_installed ${NAME})
  endif()
  unset(${_tfaot_installed}_DIR)
  unset(${_tfaot_installed}_DIR CACHE)
  find_package(${_tfaot_installed} ${_tfaot_version} QUIET CONFIG COMPONENTS ${_tfaot_components}
    PATHS "${_tfaot_prefix}" NO_DEFAULT_PATH)
  _tfaot_check(${_tfaot_installed})
  if(NOT _tfaot_installed STREQUAL "${NAME}")
    foreach(_tfaot_each IN ITEMS FOUND VERSION DIR)
      set(${NAME}_${_tfaot_each} "${${_tfaot_installed}_${_tfaot_each}}")
    endforeach()
    if(NOT TARGET ${NAME}::${NAME})
      add_library(${NAME}::${NAME} INTERFACE IMPORTED)
      set_target_properties(${NAME}::${NAME} PROPERTIES
        INTERFACE_LINK_LIBRARIES "${_tfaot_installed}::${_tfaot_installed}")
    endif()
    unset(_tfaot_each)
  endif()
  unset(_tfaot_installed)
  unset(_tfaot_prefix)
  unset(_tfaot_version)
  unset(_tfaot_components)
endmacro()
