# tfaot-model-affine 1.2.0: Multiplies, adds, and finds the largest
#
#   find_package(tfaot-model-affine 1.2.0 REQUIRED)
#   target_link_libraries(program PRIVATE tfaot-model-affine::tfaot-model-affine)
#
# Targets:
#   tfaot-model-affine::static   the static library
#   tfaot-model-affine::shared   the shared library
#   tfaot-model-affine::tfaot-model-affine   one of the two: the requested component (static or shared); otherwise
#     the one that tfaot-model-affine_SHARED_LIBS or BUILD_SHARED_LIBS selects; otherwise static, because such a
#     program needs no library at run time. If that one was removed, the other one.
#   tfaot-model-affine::cmssw    the same, and the headers under the names that they have in CMSSW
#     (PhysicsTools/TensorFlowAOT/interface/Model.h)

cmake_policy(PUSH)
cmake_policy(VERSION 3.15...4.0)

get_filename_component(_tfaot_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT EXISTS "${_tfaot_prefix}/include/tfaot-model-affine/model.h")
  # lib is a link, such as /lib to /usr/lib.
  get_filename_component(_tfaot_prefix "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
  get_filename_component(_tfaot_prefix "${_tfaot_prefix}/../../.." ABSOLUTE)
endif()
set(_tfaot_static "${_tfaot_prefix}/lib/libtfaot-model-affine.a")
set(_tfaot_shared "${_tfaot_prefix}/lib/libtfaot-model-affine.so")

set(tfaot-model-affine_static_FOUND FALSE)
set(tfaot-model-affine_shared_FOUND FALSE)
if(EXISTS "${_tfaot_static}")
  set(tfaot-model-affine_static_FOUND TRUE)
endif()
if(EXISTS "${_tfaot_shared}")
  set(tfaot-model-affine_shared_FOUND TRUE)
endif()

set(tfaot-model-affine_cmssw_FOUND FALSE)
if(EXISTS "${_tfaot_prefix}/include/tfaot/cmssw")
  set(tfaot-model-affine_cmssw_FOUND TRUE)
endif()

# In a Conan package, the choice of its option `shared`.
if(NOT DEFINED tfaot-model-affine_SHARED_LIBS)
  include("${CMAKE_CURRENT_LIST_DIR}/tfaot-model-affineKind.cmake" OPTIONAL)
endif()

set(_tfaot_kind "${tfaot-model-affine_FIND_COMPONENTS}")
list(REMOVE_ITEM _tfaot_kind cmssw)
if(_tfaot_kind MATCHES "^(static|shared)$")
  set(_tfaot_default "${CMAKE_MATCH_1}")
elseif(DEFINED tfaot-model-affine_SHARED_LIBS AND tfaot-model-affine_SHARED_LIBS)
  set(_tfaot_default shared)
elseif(NOT DEFINED tfaot-model-affine_SHARED_LIBS AND BUILD_SHARED_LIBS)
  set(_tfaot_default shared)
else()
  set(_tfaot_default static)
endif()
if(_tfaot_default STREQUAL "static" AND NOT tfaot-model-affine_static_FOUND)
  set(_tfaot_default shared)
elseif(_tfaot_default STREQUAL "shared" AND NOT tfaot-model-affine_shared_FOUND)
  set(_tfaot_default static)
endif()

set(tfaot-model-affine_FOUND TRUE)
if(NOT tfaot-model-affine_static_FOUND AND NOT tfaot-model-affine_shared_FOUND)
  set(tfaot-model-affine_FOUND FALSE)
  set(tfaot-model-affine_NOT_FOUND_MESSAGE "tfaot-model-affine has no library in ${_tfaot_prefix}/lib")
endif()
foreach(_tfaot_component IN LISTS tfaot-model-affine_FIND_COMPONENTS)
  if(tfaot-model-affine_FIND_REQUIRED_${_tfaot_component} AND NOT tfaot-model-affine_${_tfaot_component}_FOUND)
    set(tfaot-model-affine_FOUND FALSE)
    set(tfaot-model-affine_NOT_FOUND_MESSAGE "tfaot-model-affine has no component '${_tfaot_component}' in ${_tfaot_prefix}")
  endif()
endforeach()

if(tfaot-model-affine_FOUND)
  include("${CMAKE_CURRENT_LIST_DIR}/tfaot-model-affineTargets.cmake")
endif()

unset(_tfaot_component)
unset(_tfaot_kind)
unset(_tfaot_default)
unset(_tfaot_shared)
unset(_tfaot_static)
unset(_tfaot_prefix)
cmake_policy(POP)
