# tfaot_add_model: a model of the project's own, compiled and verified when the project is built.
#
#   find_package(tfaot-pkg REQUIRED)     # cmake -Dtfaot-pkg_DIR="$(tfaot-pkg cmake-dir)" ...
#   tfaot_add_model(NAME simple SPEC model/spec.yaml)
#   target_link_libraries(program PRIVATE simple)       # #include <tfaot-model-simple/model.h>: tfaot_model::simple
#
# tfaot_add_model(
#   NAME name                 the model's name, instead of the spec's: names targets, header and C++ class
#   SPEC file                 relative to this CMakeLists.txt
#   [TARGETS target...]       kinds of CPU, such as x86-64-v3, instead of the spec's
#   [BATCH_SIZES size...]     batch sizes to compile, instead of the spec's
#   [DEFINES key=value...])   values of {{ env.key }} in the spec
#
# Targets, visible in the whole project:
#   simple             the library: static, or shared with BUILD_SHARED_LIBS. Its alias is the target of an installed
#                      package, tfaot-model-simple::tfaot-model-simple
#   simple_test        compares with TensorFlow's answers, stored at build time; registered with CTest
#   simple_benchmark   latency per batch size; see --help. The binary folder has links to both programs.
#   simple_model       makes all of these
#
# tfaot_install_model(NAME name [DESTINATION folder] [COMPONENT component])
#
# installs the model's package with the project, so that a library of the project that links the model can be installed
# and exported (install(TARGETS ... EXPORT ...)). The package configuration file of the project finds it there:
#
#   find_dependency(tfaot-model-simple)
#
# The tool runs again when the spec, its tuning file, the SavedModel, the validation's inputs, the arguments or the tool
# change; programs are not linked again if the library stays the same. A failed build leaves no earlier library behind.

# Check the arguments of tfaot_add_model and set them, NAME and SPEC first, in the caller's scope.
function(_tfaot_model_arguments)
  cmake_parse_arguments(PARSE_ARGV 0 "" "" "NAME;SPEC" "TARGETS;BATCH_SIZES;DEFINES")
  set(TFAOT_CALL "tfaot_add_model(${_NAME})")
  if(CMAKE_VERSION VERSION_LESS 3.20)
    _tfaot_fail("it needs CMake 3.20, and this is ${CMAKE_VERSION}" "upgrade CMake, for example: pip install cmake")
  endif()
  if(DEFINED _UNPARSED_ARGUMENTS OR DEFINED _KEYWORDS_MISSING_VALUES)
    _tfaot_fail("unknown or empty arguments: ${_UNPARSED_ARGUMENTS} ${_KEYWORDS_MISSING_VALUES}"
      "known are NAME, SPEC, TARGETS, BATCH_SIZES, DEFINES, each with a value")
  endif()
  foreach(needed IN ITEMS NAME SPEC)
    if(NOT DEFINED _${needed})
      _tfaot_fail("${needed} is missing" "write tfaot_add_model(NAME simple SPEC model/spec.yaml)")
    endif()
  endforeach()
  if(NOT _NAME MATCHES "^[a-z][a-z0-9_]*$")
    _tfaot_fail("${_NAME} cannot name a model"
      "begin with a lower-case letter, and use lower-case letters, digits and _ only: it is a C++ class too")
  endif()
  foreach(target IN ITEMS "${_NAME}" "${_NAME}_test" "${_NAME}_benchmark" "${_NAME}_model")
    if(TARGET "${target}")
      _tfaot_fail("this project has a target ${target} already" "choose another NAME")
    endif()
  endforeach()
  get_filename_component(spec "${_SPEC}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT EXISTS "${spec}" OR IS_DIRECTORY "${spec}")
    _tfaot_fail("SPEC ${_SPEC} is no file (${spec})" "`tfaot-pkg init MODEL` writes a first spec")
  endif()
  foreach(size IN LISTS _BATCH_SIZES)
    if(NOT size MATCHES "^[1-9][0-9]*$")
      _tfaot_fail("BATCH_SIZES ${size} is no number above 0" "write, for example, BATCH_SIZES 1 2 4")
    endif()
  endforeach()
  foreach(define IN LISTS _DEFINES)
    if(NOT define MATCHES "^[A-Za-z][A-Za-z0-9_]*=")
      _tfaot_fail("DEFINES ${define} is not key=value" "write, for example, DEFINES release=2026.1")
    endif()
  endforeach()
  set(SPEC "${spec}" PARENT_SCOPE)
  foreach(name IN ITEMS NAME TARGETS BATCH_SIZES DEFINES)
    set(${name} "${_${name}}" PARENT_SCOPE)
  endforeach()
endfunction()

# The package of the model NAME: - stands for _.
function(_tfaot_package_of OUT NAME)
  string(REPLACE "_" "-" name "${NAME}")
  set(${OUT} "tfaot-model-${name}" PARENT_SCOPE)
endfunction()

# Words for the tool: OPTION before each of the values.
function(_tfaot_each OUT OPTION)
  set(words "")
  foreach(value IN LISTS ARGN)
    list(APPEND words "${OPTION}" "${value}")
  endforeach()
  set(${OUT} "${words}" PARENT_SCOPE)
endfunction()

# The tuning file beside the spec, if there is one; the build notices a new or removed one.
function(_tfaot_tuning OUT SPEC)
  get_filename_component(folder "${SPEC}" DIRECTORY)
  get_filename_component(stem "${SPEC}" NAME_WLE)
  string(REGEX REPLACE "([[*?])" "[\\1]" pattern "${folder}/${stem}.tune.json")
  file(GLOB tuning CONFIGURE_DEPENDS "${pattern}")
  set(${OUT} "${tuning}" PARENT_SCOPE)
endfunction()

# The headers of PACKAGE, relative to its include folder.
function(_tfaot_headers OUT PACKAGE)
  # The tool's headers and templates are in a checkout, or in the installed Python package.
  get_property(here GLOBAL PROPERTY TFAOT_PKG_CMAKE_DIR)
  set(root "${here}/../_bundled")
  if(NOT EXISTS "${root}")
    set(root "${here}/../..")
  endif()
  set(common "${root}/recipes/tfaot/all/include")
  file(GLOB_RECURSE headers RELATIVE "${common}" "${common}/tfaot/*.h")
  set(templates "${root}/templates/package/include")
  file(GLOB_RECURSE generated RELATIVE "${templates}" "${templates}/*.h.j2")
  list(TRANSFORM generated REPLACE "\\.j2$" "")
  list(TRANSFORM generated REPLACE "tfaot-model-NAME" "${PACKAGE}")
  set(${OUT} ${headers} ${generated} PARENT_SCOPE)
endfunction()

# The rule that runs the tool, and the target NAME_model for it.
function(_tfaot_build_rule NAME SPEC PREFIX)
  _tfaot_command(command)
  _tfaot_each(targets --target ${TARGETS})
  _tfaot_each(sizes --batch-size ${BATCH_SIZES})
  _tfaot_each(defines --define ${DEFINES})
  _tfaot_tuning(tuning "${SPEC}")
  _tfaot_package_of(package "${NAME}")
  _tfaot_headers(headers "${package}")
  set(files "lib/lib${package}.a" "lib/lib${package}.so")
  foreach(header IN LISTS headers)
    list(APPEND files "include/${header}")
  endforeach()
  set(links "")
  set(programs "")
  foreach(program IN ITEMS "${NAME}_test" "${NAME}_benchmark")
    list(APPEND files "bin/${program}")
    list(APPEND programs "${CMAKE_CURRENT_BINARY_DIR}/${program}")
    list(APPEND links COMMAND "${CMAKE_COMMAND}" -E create_symlink
      "${PREFIX}/bin/${program}" "${CMAKE_CURRENT_BINARY_DIR}/${program}")
  endforeach()
  list(TRANSFORM files PREPEND "${PREFIX}/")
  add_custom_command(
    OUTPUT "${PREFIX}.stamp"
    BYPRODUCTS ${files} ${programs}
    COMMAND ${command} build "${SPEC}" --output "${PREFIX}" --depfile "${PREFIX}.stamp.d"
      --name "${NAME}" --tools ${targets} ${sizes} ${defines}
    ${links}
    COMMAND "${CMAKE_COMMAND}" -E touch "${PREFIX}.stamp"
    DEPENDS "${SPEC}" ${tuning}
    DEPFILE "${PREFIX}.stamp.d"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "Compiling the model ${NAME}"
    VERBATIM)
  add_custom_target(${NAME}_model ALL DEPENDS "${PREFIX}.stamp")
  set_property(DIRECTORY APPEND PROPERTY ADDITIONAL_CLEAN_FILES "${PREFIX}" "${PREFIX}.stamp.d")
endfunction()

# The library target.
function(_tfaot_library NAME PREFIX)
  # CMake rejects an include folder that does not exist when it generates, before the first build fills it.
  file(MAKE_DIRECTORY "${PREFIX}/include")
  _tfaot_package_of(package "${NAME}")
  set(file "${PREFIX}/lib/lib${package}")
  # The name that find_package gives: what install(EXPORT) writes of a library that links the model is found by it.
  set(target "${package}::${package}")
  if(BUILD_SHARED_LIBS)
    add_library(${target} SHARED IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${file}.so")
  else()
    add_library(${target} STATIC IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES
      IMPORTED_LOCATION "${file}.a"
      INTERFACE_LINK_LIBRARIES m)
  endif()
  set_target_properties(${target} PROPERTIES
    TFAOT_PREFIX "${PREFIX}"
    INTERFACE_INCLUDE_DIRECTORIES "${PREFIX}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
  # Packages once kept the _ of the model's name.
  set(names "${NAME}" "tfaot-model-${NAME}::tfaot-model-${NAME}")
  list(REMOVE_ITEM names "${target}")
  foreach(name IN LISTS names)
    add_library(${name} ALIAS ${target})
  endforeach()
  add_dependencies(${target} ${NAME}_model)
endfunction()

function(tfaot_add_model)
  _tfaot_model_arguments(${ARGV})
  set(TFAOT_CALL "tfaot_add_model(${NAME})")
  set(prefix "${CMAKE_CURRENT_BINARY_DIR}/tfaot/${NAME}")
  _tfaot_build_rule("${NAME}" "${SPEC}" "${prefix}")
  _tfaot_library("${NAME}" "${prefix}")
  foreach(program IN ITEMS "${NAME}_test" "${NAME}_benchmark")
    add_executable(${program} IMPORTED GLOBAL)
    set_target_properties(${program} PROPERTIES IMPORTED_LOCATION "${prefix}/bin/${program}")
  endforeach()
  foreach(target IN ITEMS "${NAME}_test" "${NAME}_benchmark")
    add_dependencies(${target} ${NAME}_model)
  endforeach()
  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    add_test(NAME ${NAME}_test COMMAND ${NAME}_test)
  endif()
endfunction()

# Install the model's package with the project: libraries, headers, CMake files, programs, documents.
function(tfaot_install_model)
  cmake_parse_arguments(PARSE_ARGV 0 "" "" "NAME;DESTINATION;COMPONENT" "")
  set(TFAOT_CALL "tfaot_install_model(${_NAME})")
  if(NOT DEFINED _NAME OR DEFINED _UNPARSED_ARGUMENTS OR DEFINED _KEYWORDS_MISSING_VALUES)
    _tfaot_fail("unknown or missing arguments: ${_UNPARSED_ARGUMENTS} ${_KEYWORDS_MISSING_VALUES}"
      "write tfaot_install_model(NAME simple), and DESTINATION or COMPONENT with a value each")
  endif()
  _tfaot_package_of(package "${_NAME}")
  set(prefix "")
  if(TARGET "${package}::${package}")
    get_target_property(prefix "${package}::${package}" TFAOT_PREFIX)
  endif()
  if(NOT prefix)
    _tfaot_fail("this project has no model ${_NAME}" "write tfaot_add_model(NAME ${_NAME} SPEC ...) before it")
  endif()
  if(NOT DEFINED _DESTINATION)
    set(_DESTINATION ".")
  endif()
  set(component "")
  if(DEFINED _COMPONENT)
    set(component COMPONENT "${_COMPONENT}")
  endif()
  install(DIRECTORY "${prefix}/" DESTINATION "${_DESTINATION}" ${component}
    USE_SOURCE_PERMISSIONS PATTERN ".tfaot-*" EXCLUDE)
endfunction()
