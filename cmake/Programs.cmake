# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# boost_rdma_program(NAME SOURCE FILE OUTPUT_DIRECTORY DIR)
#   Builds an executable from one source file. It uses the library like any program, and is created in DIR in the build
#   directory.

# Parsing Asio takes longer than compiling most programs, so all programs share one precompiled header. It does not contain
# <infiniband/verbs.h>, whose macros must only affect the sources that include it.
function(boost_rdma_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;LIBRARIES;HEADERS_OF_ONE_BUILD")
  add_library(${target} OBJECT "${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp")
  boost_rdma_target_options(${target})
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${target} PRIVATE boost_rdma::boost_rdma ${arg_LIBRARIES})
  target_precompile_headers(${target} PRIVATE
    <boost/asio.hpp>
    <boost/beast/core.hpp>
    <boost/beast/http.hpp>
    <chrono> <functional> <memory> <string> <vector>)
  if(BOOST_RDMA_BUILD_ONCE)
    target_precompile_headers(${target} PRIVATE <boost_rdma.hpp> ${arg_HEADERS_OF_ONE_BUILD})
  endif()
endfunction()

# Tests are never optimised: they test the library, and optimising the template instances of all operations and handlers
# takes twice as long as compiling them. With sanitizers, where it takes three times as long, programs are not optimised
# either.
set(boost_rdma_test_options -O0)
if(BOOST_RDMA_BUILD_ONCE)
  list(APPEND boost_rdma_test_options -g0) # takes an eighth less time; call stacks have no lines of tests
endif()
set(boost_rdma_program_options)
if(BOOST_RDMA_SANITIZE)
  set(boost_rdma_program_options ${boost_rdma_test_options})
endif()
# example/ replaces this and boost_rdma_program_options in its own scope.
set(boost_rdma_precompiled_for_programs boost_rdma_precompiled)
set(command_line)
if(TARGET CLI11::CLI11)
  set(command_line LIBRARIES CLI11::CLI11 HEADERS_OF_ONE_BUILD <CLI/CLI.hpp>)
endif()
boost_rdma_precompile(boost_rdma_precompiled OPTIONS ${boost_rdma_program_options} ${command_line})
if(BOOST_RDMA_BUILD_TESTS)
  set(boost_rdma_precompiled_for_tests boost_rdma_precompiled_for_tests)
  boost_rdma_precompile(${boost_rdma_precompiled_for_tests} OPTIONS ${boost_rdma_test_options}
    LIBRARIES Catch2::Catch2 HEADERS_OF_ONE_BUILD "${PROJECT_SOURCE_DIR}/test/common/catch.hpp")
endif()

# The common properties of programs.
function(boost_rdma_user_target target)
  boost_rdma_target_options(${target})
  target_compile_options(${target} PRIVATE ${boost_rdma_program_options})
  target_link_libraries(${target} PRIVATE boost_rdma::boost_rdma)
  target_precompile_headers(${target} REUSE_FROM ${boost_rdma_precompiled_for_programs})
endfunction()

function(boost_rdma_test_target target)
  boost_rdma_target_options(${target})
  target_compile_options(${target} PRIVATE ${boost_rdma_test_options})
  target_link_libraries(${target} PRIVATE boost_rdma::boost_rdma)
  target_precompile_headers(${target} REUSE_FROM ${boost_rdma_precompiled_for_tests})
endfunction()

function(boost_rdma_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;OUTPUT_DIRECTORY" "")
  add_executable(${name} ${arg_SOURCE})
  boost_rdma_user_target(${name})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${arg_OUTPUT_DIRECTORY}")
endfunction()
