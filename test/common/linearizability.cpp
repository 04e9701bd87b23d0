//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compiles the checks of all models, optimised: without optimisation they take ten times as long.

#include "common/linearizability.hpp"
#include "common/basic_models.hpp"
#include "common/container_models.hpp"

#include <string>

namespace test {

template std::string why_not_linearizable(
  const history<register_model>&, const register_model::State&);
template std::string why_not_linearizable(
  const history<counter_model>&, const counter_model::State&);
template std::string why_not_linearizable(const history<mutex_model>&, const mutex_model::State&);
template std::string why_not_linearizable(
  const history<semaphore_model>&, const semaphore_model::State&);
template std::string why_not_linearizable(const history<map_model>&, const map_model::State&);
template std::string why_not_linearizable(const history<log_model>&, const log_model::State&);
template std::string why_not_linearizable(const history<ring_model>&, const ring_model::State&);

} // namespace test
