# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# What a shared libboost_rdma shows: its own names and those of Asio, which a program must share with it (Asio finds out by
# the addresses of its variables whether it is inside run()), and nothing of what it is made of: spdlog, fmt, Beast's HTTP,
# and the parts of the software device. Names, not -fvisibility=hidden: the public headers then need no macro at each class.
if(BUILD_SHARED_LIBS)
  set(boost_rdma_exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
  target_link_options(boost_rdma PRIVATE "LINKER:--version-script=${boost_rdma_exports}")
  set_property(TARGET boost_rdma APPEND PROPERTY LINK_DEPENDS "${boost_rdma_exports}")
endif()
