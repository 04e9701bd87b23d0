# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Installs the library and its headers, a CMake package and a pkg-config file. Programs use find_package(boost_rdma), which
# also finds the dependencies. The installed tree may be moved, because both files contain relative paths, unless
# CMAKE_INSTALL_LIBDIR is an absolute path.
# Components: boost_rdma_runtime, boost_rdma_development, rdma_soft, rdma_sockets.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_include_directories(boost_rdma PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS boost_rdma
  EXPORT boost_rdma-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    COMPONENT boost_rdma_runtime NAMELINK_COMPONENT boost_rdma_development
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT boost_rdma_development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT boost_rdma_development FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/boost_rdma" COMPONENT boost_rdma_runtime)

get_target_property(boost_rdma_type boost_rdma TYPE)
if(boost_rdma_type STREQUAL "STATIC_LIBRARY") # the program must then link its dependencies
  set(boost_rdma_pc_requires "spdlog")
  set(boost_rdma_pc_private_requires "")
else()
  set(boost_rdma_pc_requires "")
  set(boost_rdma_pc_private_requires "spdlog")
endif()

set(boost_rdma_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/boost_rdma")
install(EXPORT boost_rdma-targets
  NAMESPACE boost_rdma:: DESTINATION "${boost_rdma_package_dir}" COMPONENT boost_rdma_development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/boost_rdma-config.cmake.in"
  "${PROJECT_BINARY_DIR}/boost_rdma-config.cmake" INSTALL_DESTINATION "${boost_rdma_package_dir}")
# Before 1.0.0 a minor version may be incompatible.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/boost_rdma-config-version.cmake" COMPATIBILITY SameMinorVersion)
configure_file("${PROJECT_SOURCE_DIR}/cmake/boost_rdma-same_boost.cmake.in"
  "${PROJECT_BINARY_DIR}/boost_rdma-same_boost.cmake" @ONLY)
install(FILES
  "${PROJECT_BINARY_DIR}/boost_rdma-same_boost.cmake"
  "${PROJECT_BINARY_DIR}/boost_rdma-config.cmake"
  "${PROJECT_BINARY_DIR}/boost_rdma-config-version.cmake"
  DESTINATION "${boost_rdma_package_dir}" COMPONENT boost_rdma_development)

# The prefix is relative to the .pc file, so that the installed tree can be moved. Absolute directories are kept.
foreach(which IN ITEMS LIB INCLUDE)
  string(TOLOWER "${which}" name)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${which}DIR}")
    set(boost_rdma_pc_${name}dir "${CMAKE_INSTALL_${which}DIR}")
  else()
    set(boost_rdma_pc_${name}dir "\${prefix}/${CMAKE_INSTALL_${which}DIR}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(boost_rdma_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH boost_rdma_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" boost_rdma_pc_prefix "\${pcfiledir}/${boost_rdma_pc_prefix}")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/boost_rdma.pc.in" "${PROJECT_BINARY_DIR}/boost_rdma.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/boost_rdma.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT boost_rdma_development)

# boost_rdma_report_missing(TARGET COMPONENT): tools/demo builds the library and one example. The library can then be
# installed; a tool that has not been built is left out, and the installation reports it.
function(boost_rdma_report_missing target component)
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
  message(STATUS \"Not built, so not installed: ${target} (cmake --build \\\"${PROJECT_BINARY_DIR}\\\" --target ${target})\")
endif()" COMPONENT ${component})
endfunction()

# boost_rdma_install_program(TARGET): installs a program that finds the installed library, even if the tree is moved.
function(boost_rdma_install_program target)
  if(BUILD_SHARED_LIBS AND NOT DEFINED CMAKE_INSTALL_RPATH)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}")
      set(libraries "${CMAKE_INSTALL_FULL_LIBDIR}")
    else()
      file(RELATIVE_PATH libraries "/prefix/${CMAKE_INSTALL_BINDIR}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
      string(PREPEND libraries "$ORIGIN/")
    endif()
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${libraries}")
  endif()
  install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT boost_rdma_runtime OPTIONAL)
  boost_rdma_report_missing(${target} boost_rdma_runtime)
endfunction()
