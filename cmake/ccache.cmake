# Use ccache where it is installed. The sloppiness settings let it work with precompiled headers.
find_program(CRATON_CCACHE ccache)
if(CRATON_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CRATON_CCACHE})
endif()
