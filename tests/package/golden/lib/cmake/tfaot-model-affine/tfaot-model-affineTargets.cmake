# Targets of tfaot-model-affine 1.2.0; included by its config file, which sets the _tfaot_ variables.

if(tfaot-model-affine_static_FOUND AND NOT TARGET tfaot-model-affine::static)
  add_library(tfaot-model-affine::static STATIC IMPORTED)
  set_target_properties(tfaot-model-affine::static PROPERTIES
    IMPORTED_LOCATION "${_tfaot_static}"
    INTERFACE_INCLUDE_DIRECTORIES "${_tfaot_prefix}/include"
    INTERFACE_LINK_LIBRARIES "m"
    INTERFACE_COMPILE_FEATURES cxx_std_17
  )
endif()

if(tfaot-model-affine_shared_FOUND AND NOT TARGET tfaot-model-affine::shared)
  add_library(tfaot-model-affine::shared SHARED IMPORTED)
  set_target_properties(tfaot-model-affine::shared PROPERTIES
    IMPORTED_LOCATION "${_tfaot_shared}"
    IMPORTED_SONAME "libtfaot-model-affine.so.0123456789ab"
    INTERFACE_INCLUDE_DIRECTORIES "${_tfaot_prefix}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_17
  )
endif()

if(NOT TARGET tfaot-model-affine::tfaot-model-affine)
  add_library(tfaot-model-affine::tfaot-model-affine INTERFACE IMPORTED)
  set_target_properties(tfaot-model-affine::tfaot-model-affine PROPERTIES
    INTERFACE_LINK_LIBRARIES "tfaot-model-affine::${_tfaot_default}"
  )
endif()

if(tfaot-model-affine_cmssw_FOUND AND NOT TARGET tfaot-model-affine::cmssw)
  add_library(tfaot-model-affine::cmssw INTERFACE IMPORTED)
  set_target_properties(tfaot-model-affine::cmssw PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_tfaot_prefix}/include/tfaot/cmssw"
    INTERFACE_LINK_LIBRARIES "tfaot-model-affine::tfaot-model-affine"
  )
endif()
