//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_POOL_CORE_HPP
#define BOOST_RDMA_DETAIL_RPC_POOL_CORE_HPP

#include <boost_rdma/detail/rpc/client_core.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/rpc/options.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <vector>

namespace rdma::detail::rpc {

// A pool of clients, independent of the types of methods and handlers.
class pool_core : public call_core
{
public:
  using io_executor = client_core::io_executor;
  using endpoint_type = client_core::endpoint_type;

  // Throws system_error. `inner` is the executor inside the strands of `executor`.
  static std::shared_ptr<pool_core> make(const io_executor& executor, const io_executor& inner,
    const protection_domain& domain, const std::vector<endpoint_type>& servers,
    const rdma::rpc::client_pool_options& options);
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_POOL_CORE_HPP
