//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compiles Boost.JSON, which is not in every installation of Boost's libraries.

#include <boost/json/src.hpp>
