# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Tests that read the sources and the documentation.

function(boost_rdma_source_check title)
  add_test(NAME "source: ${title}" COMMAND ${ARGN})
  set_tests_properties("source: ${title}" PROPERTIES TIMEOUT 300 LABELS unit SKIP_RETURN_CODE 77)
endfunction()

boost_rdma_source_check("every link in the documentation has a target"
  "${CMAKE_CURRENT_SOURCE_DIR}/check_links" "${PROJECT_SOURCE_DIR}")
boost_rdma_source_check("the library reads the environment by secure_getenv only"
  "${CMAKE_CURRENT_SOURCE_DIR}/check_getenv" "${PROJECT_SOURCE_DIR}")
boost_rdma_source_check("no include points to a higher layer" "${PROJECT_SOURCE_DIR}/tools/check_includes")
boost_rdma_source_check("comments and documentation have the agreed form"
  "${CMAKE_CURRENT_SOURCE_DIR}/check_language" "${PROJECT_SOURCE_DIR}")
boost_rdma_source_check("the code is formatted with clang-format 16"
  "${CMAKE_CURRENT_SOURCE_DIR}/check_format" "${PROJECT_SOURCE_DIR}")

find_program(BOOST_RDMA_DOXYGEN doxygen DOC "Generates the reference of the public headers")
find_program(BOOST_RDMA_XSLTPROC xsltproc DOC "Finds gaps in the reference")
if(BOOST_RDMA_DOXYGEN AND BOOST_RDMA_XSLTPROC)
  boost_rdma_source_check("the reference is complete" "${PROJECT_SOURCE_DIR}/tools/check_reference" --no-install)
else()
  message(STATUS "Doxygen or xsltproc not found: the check of the reference is left out (Debian: doxygen xsltproc)")
endif()
