# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# boost_rdma_program(NAME SOURCE FILE OUTPUT_DIRECTORY DIR)
#   An executable of one source file that uses the library as any program does, put into DIR below
#   the build directory.

# Asio takes longer to parse than most programs take to compile, so all of them share one
# precompiled header. <infiniband/verbs.h> stays out of it: its macros must meet only the sources
# that ask for them.
add_library(boost_rdma_precompiled OBJECT "${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp")
boost_rdma_target_options(boost_rdma_precompiled)
# With sanitizers programs and tests are not optimised, the library is: half of the build's time went into optimising
# instrumented tests (GCC 12, address and undefined: 143 s for one file of them, 64 s without).
set(boost_rdma_user_options)
if(BOOST_RDMA_SANITIZE)
  set(boost_rdma_user_options -O0)
endif()
target_compile_options(boost_rdma_precompiled PRIVATE ${boost_rdma_user_options})
target_link_libraries(boost_rdma_precompiled PRIVATE boost_rdma::boost_rdma)
target_precompile_headers(boost_rdma_precompiled PRIVATE
  <boost/asio.hpp>
  <boost/beast/core.hpp>
  <boost/beast/http.hpp>
  <chrono> <functional> <memory> <string> <vector>)

# What holds for programs and tests alike.
function(boost_rdma_user_target target)
  boost_rdma_target_options(${target})
  target_compile_options(${target} PRIVATE ${boost_rdma_user_options})
  target_link_libraries(${target} PRIVATE boost_rdma::boost_rdma)
  target_precompile_headers(${target} REUSE_FROM boost_rdma_precompiled)
endfunction()

function(boost_rdma_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;OUTPUT_DIRECTORY" "")
  add_executable(${name} ${arg_SOURCE})
  boost_rdma_user_target(${name})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${arg_OUTPUT_DIRECTORY}")
endfunction()
