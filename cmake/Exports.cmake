# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# What a shared libboost_rdma does not show: what it is made of (spdlog, fmt, Beast's HTTP, the inside of the software device).
# All else it does show, Asio's names among it: a program must share those with it, as Asio finds out by the addresses of its
# variables whether it is inside run(). Names, not -fvisibility=hidden: the public headers then need no macro at each class.
if(BUILD_SHARED_LIBS)
  set(boost_rdma_exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
  target_link_options(boost_rdma PRIVATE "LINKER:--version-script=${boost_rdma_exports}")
  set_property(TARGET boost_rdma APPEND PROPERTY LINK_DEPENDS "${boost_rdma_exports}")
endif()
