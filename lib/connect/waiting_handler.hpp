//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_WAITING_HANDLER_HPP
#define BOOST_RDMA_LIB_CONNECT_WAITING_HANDLER_HPP

#include "completion/waiting_handler.hpp" // IWYU pragma: export

#endif // BOOST_RDMA_LIB_CONNECT_WAITING_HANDLER_HPP
