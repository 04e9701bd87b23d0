# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

message(FATAL_ERROR "the library included a module of the consumer instead of its own")
