# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# libboost_rdma_soft.so, which tools/rdma_soft preloads. It provides the software device as the functions of libibverbs.

file(GLOB boost_rdma_soft_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tools/soft/*.cpp" "${PROJECT_SOURCE_DIR}/tools/soft/*.hpp")
set(boost_rdma_soft_exports "${PROJECT_SOURCE_DIR}/tools/soft/exports.map")

add_library(boost_rdma_soft MODULE ${boost_rdma_soft_sources} $<TARGET_OBJECTS:boost_rdma_software>)
boost_rdma_target_options(boost_rdma_soft)
set_target_properties(boost_rdma_soft PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tools"
  LINK_DEPENDS "${boost_rdma_soft_exports}")
target_include_directories(boost_rdma_soft PRIVATE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/tools)
target_include_directories(boost_rdma_soft SYSTEM PRIVATE ${BOOST_RDMA_VERBS_INCLUDE_DIR})
target_link_libraries(boost_rdma_soft PRIVATE Threads::Threads)
target_link_options(boost_rdma_soft PRIVATE
  "LINKER:--version-script=${boost_rdma_soft_exports}"
  LINKER:--exclude-libs,ALL
  LINKER:-z,nodelete # never unload: its threads may still run
  LINKER:-z,defs # undefined symbols would be searched in libibverbs, which is not needed
  # A program may have its own C++ library, older than the one of this build.
  -static-libstdc++ -static-libgcc)

# The library under the names of rdma-core's, for programs that look for these with dlopen(3).
set(boost_rdma_soft_names "${PROJECT_BINARY_DIR}/tools/drop_in")
set(boost_rdma_soft_links)
foreach(name IN ITEMS libibverbs.so libibverbs.so.1 librdmacm.so librdmacm.so.1)
  list(APPEND boost_rdma_soft_links
    COMMAND ${CMAKE_COMMAND} -E create_symlink ../libboost_rdma_soft.so "${boost_rdma_soft_names}/${name}")
endforeach()
add_custom_command(TARGET boost_rdma_soft POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory "${boost_rdma_soft_names}"
  ${boost_rdma_soft_links}
  VERBATIM)

if(BOOST_RDMA_INSTALL)
  # A copy beside the library, so that the script is installed only together with it.
  set(boost_rdma_soft_script "${PROJECT_BINARY_DIR}/tools/rdma_soft")
  add_custom_command(TARGET boost_rdma_soft POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy "${PROJECT_SOURCE_DIR}/tools/rdma_soft" "${boost_rdma_soft_script}"
    VERBATIM)
  install(TARGETS boost_rdma_soft
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/boost_rdma" COMPONENT rdma_soft OPTIONAL)
  install(DIRECTORY "${boost_rdma_soft_names}"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/boost_rdma" COMPONENT rdma_soft OPTIONAL)
  install(PROGRAMS "${boost_rdma_soft_script}"
    DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT rdma_soft OPTIONAL)
  boost_rdma_report_missing(boost_rdma_soft rdma_soft)
endif()
