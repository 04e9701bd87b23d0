# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Completes the target boost_rdma::boost_rdma that Conan's CMakeDeps generates. find_package(boost_rdma) includes this file
# after the target and the dependencies, see package_info() in conanfile.py.

target_compile_features(boost_rdma::boost_rdma INTERFACE cxx_std_20)

if(NOT TARGET Boost::headers) # Boost comes from the system, not from Conan
  include(CMakeFindDependencyMacro)
  if(POLICY CMP0167)
    cmake_policy(SET CMP0167 NEW) # use Boost's own package file instead of CMake's search
  endif()
  find_dependency(Boost 1.81)
  target_link_libraries(boost_rdma::boost_rdma INTERFACE Boost::headers)
endif()
include("${CMAKE_CURRENT_LIST_DIR}/boost_rdma-same_boost.cmake" OPTIONAL) # absent in Conan's editable mode
