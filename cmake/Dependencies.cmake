# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# The dependencies of this project. Asio and Beast are used header-only, like in the programs that link this library.

if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW) # use Boost's own package file instead of CMake's search
endif()
find_package(Boost 1.81 REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)

find_path(BOOST_RDMA_VERBS_INCLUDE_DIR infiniband/verbs.h
  DOC "Directory of rdma-core's headers (Debian: libibverbs-dev)")
if(NOT BOOST_RDMA_VERBS_INCLUDE_DIR)
  message(FATAL_ERROR
    "infiniband/verbs.h not found: install rdma-core's headers (Debian: libibverbs-dev) or set "
    "BOOST_RDMA_VERBS_INCLUDE_DIR. They are needed to build the library, not to use it.")
endif()

find_path(BOOST_RDMA_CM_INCLUDE_DIR rdma/rdma_cma.h
  DOC "Directory of librdmacm's headers (Debian: librdmacm-dev)")
if(NOT BOOST_RDMA_CM_INCLUDE_DIR)
  message(FATAL_ERROR
    "rdma/rdma_cma.h not found: install librdmacm's headers (Debian: librdmacm-dev) or set "
    "BOOST_RDMA_CM_INCLUDE_DIR. They are needed to build the library, not to use it.")
endif()

if(BOOST_RDMA_BUILD_EXAMPLES OR BOOST_RDMA_BUILD_TOOLS)
  find_package(CLI11 REQUIRED)
endif()
if(BOOST_RDMA_BUILD_EXAMPLES)
  # For one example each, which is otherwise not built. The first one keeps the Boost that was found above.
  find_package(Boost ${Boost_VERSION} EXACT QUIET OPTIONAL_COMPONENTS serialization)
  find_package(Protobuf QUIET)
endif()
if(BOOST_RDMA_BUILD_EXAMPLES OR BOOST_RDMA_BUILD_TESTS)
  find_package(OpenSSL) # for some examples and tests only, which are otherwise not built
endif()
if(BOOST_RDMA_BUILD_TESTS)
  find_package(Catch2 REQUIRED) # 2.13 or 3
endif()
