# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Compiles through ccache if it is installed. Set CMAKE_CXX_COMPILER_LAUNCHER to use another launcher (empty: none).

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(BOOST_RDMA_CCACHE ccache)
  if(BOOST_RDMA_CCACHE)
    # ccache supports precompiled headers only if it may ignore the times of their headers and __TIME__. The build
    # directory in the debug information does not matter, because all source paths are absolute. The language of messages
    # does not matter either.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime,locale
      ${BOOST_RDMA_CCACHE})
  endif()
endif()
