# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Compiles through ccache where it is installed. Set CMAKE_CXX_COMPILER_LAUNCHER to choose otherwise
# (empty: none).

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(BOOST_RDMA_CCACHE ccache)
  if(BOOST_RDMA_CCACHE)
    # ccache leaves a compilation that uses a precompiled header alone unless told that the times of
    # the headers in it and __TIME__ do not matter. What debug information says of the directory that was built in
    # does not matter either: all paths of sources are whole. Nor does the language of messages.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime,locale
      ${BOOST_RDMA_CCACHE})
  endif()
endif()
