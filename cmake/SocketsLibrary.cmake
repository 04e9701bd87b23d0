# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# libboost_rdma_sockets.so, which tools/rdma_sockets preloads. It defines the C library's functions for sockets.

file(GLOB boost_rdma_sockets_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tools/sockets/*.cpp" "${PROJECT_SOURCE_DIR}/tools/sockets/*.hpp")
set(boost_rdma_sockets_exports "${PROJECT_SOURCE_DIR}/tools/sockets/exports.map")

add_library(boost_rdma_sockets MODULE ${boost_rdma_sockets_sources})
boost_rdma_target_options(boost_rdma_sockets)
set_target_properties(boost_rdma_sockets PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tools"
  LINK_DEPENDS "${boost_rdma_sockets_exports}")
target_include_directories(boost_rdma_sockets PRIVATE ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/tools)
target_include_directories(boost_rdma_sockets SYSTEM PRIVATE ${BOOST_RDMA_VERBS_INCLUDE_DIR})
target_link_libraries(boost_rdma_sockets PRIVATE boost_rdma Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(boost_rdma_sockets PRIVATE
  "LINKER:--version-script=${boost_rdma_sockets_exports}"
  LINKER:--exclude-libs,ALL
  LINKER:-z,nodelete # never unload: its threads may still run
  LINKER:-z,defs)

if(BOOST_RDMA_INSTALL)
  # A copy beside the library, so that the script is installed only together with it.
  set(boost_rdma_sockets_script "${PROJECT_BINARY_DIR}/tools/rdma_sockets")
  add_custom_command(TARGET boost_rdma_sockets POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy "${PROJECT_SOURCE_DIR}/tools/rdma_sockets" "${boost_rdma_sockets_script}"
    VERBATIM)
  install(TARGETS boost_rdma_sockets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/boost_rdma" COMPONENT rdma_sockets OPTIONAL)
  install(PROGRAMS "${boost_rdma_sockets_script}"
    DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT rdma_sockets OPTIONAL)
  boost_rdma_report_missing(boost_rdma_sockets rdma_sockets)
endif()
