//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_QUEUE_PAIR_HANDLE_HPP
#define BOOST_RDMA_DETAIL_QUEUE_PAIR_HANDLE_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/diagnosis.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/transport_choice.hpp>
#include <boost_rdma/verbs_fwd.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rdma::detail {

class work_source;

// A queue pair, independent of the types of executor and handlers. The class is private; templates
// use the functions below.
class queue_pair_core;

// `executor` is not a strand. same_context is true if the I/O object's executor is not a strand
// either. Throws system_error.
std::shared_ptr<queue_pair_core> make_queue_pair(const boost::asio::any_io_executor& executor,
  bool same_context, const protection_domain& domain, const queue_pair_options& options);

[[nodiscard]] bool is_open_core(const queue_pair_core& core);
void close_core(queue_pair_core& core);

[[nodiscard]] rdma::context context_of(const queue_pair_core& core);
[[nodiscard]] const queue_pair_options& options_of(const queue_pair_core& core) noexcept;
[[nodiscard]] std::uint32_t number_of(const queue_pair_core& core);
[[nodiscard]] bool is_connected(const queue_pair_core& core);
[[nodiscard]] diagnosis diagnosis_of(const queue_pair_core& core);
[[nodiscard]] transport_choice transport_of(const queue_pair_core& core);
[[nodiscard]] std::string peer_data_of(const queue_pair_core& core);
[[nodiscard]] ibv_qp* native_of(const queue_pair_core& core);

// `core` is null in the functions below if the queue pair was moved from. They then return null or
// end with error::closed.

[[nodiscard]] work_source* as_work_source(queue_pair_core* core) noexcept;

endpoint_description local_endpoint_of(
  queue_pair_core* core, const std::optional<boost::asio::ip::address>& local, error_code& ec);

void connect_core(queue_pair_core* core, const endpoint_description& remote, error_code& ec);

using end_handler = boost::asio::any_completion_handler<void(error_code)>;

void start_shutdown(
  const boost::asio::any_io_executor& executor, queue_pair_core* core, end_handler handler);

void start_wait_close(
  const boost::asio::any_io_executor& executor, queue_pair_core* core, end_handler handler);

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_QUEUE_PAIR_HANDLE_HPP
