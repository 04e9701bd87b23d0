//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_CALL_MEMORY_HPP
#define BOOST_RDMA_LIB_RPC_CALL_MEMORY_HPP

#include "boost_rdma/detail/rpc/server_core.hpp"
#include "completion/waiting_handler.hpp"
#include "rpc/message.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace rdma::detail::rpc {

class call_memory;
class server_connection;

// A transfer between memory of this side and of a call. The connection's mutex guards it.
class bulk_transfer : public std::enable_shared_from_this<bulk_transfer>
{
public:
  bulk_transfer(std::shared_ptr<call_memory> of, const exposed_by_client::part& what,
    waiting_handler<std::size_t> handler);

  // The program cancels it.
  void cancel();

  // The client has answered. Returns false if that is no answer to the part.
  [[nodiscard]] bool take_part(
    const std::unique_lock<std::mutex>& lock, bool refused, std::span<const std::byte> content);

private:
  friend class call_memory;
  friend class server_connection;

  using lock_type = std::unique_lock<std::mutex>;

  struct posted;

  void advance(const lock_type& lock);
  void abort(const lock_type& lock);
  void post_part();
  [[nodiscard]] bool send_part(const lock_type& lock);
  void on_part(const lock_type& lock, const error_code& ec);

  const std::shared_ptr<call_memory> of_;
  const exposed_by_client::part what_;
  waiting_handler<std::size_t> handler_;
  std::uint32_t number_ = 0;  // if the bytes travel in messages and a part is under way
  std::size_t started_ = 0;   // bytes
  std::size_t under_way_ = 0; // parts
  error_code ec_;
};

// The memory that one call exposes, for the handler and its transfers.
class call_memory final
  : public exposed_by_client
  , public std::enable_shared_from_this<call_memory>
{
public:
  call_memory(
    std::shared_ptr<server_connection> by, std::uint32_t number, std::vector<exposed_range> ranges);

  [[nodiscard]] std::size_t count() const noexcept override { return ranges_.size(); }
  [[nodiscard]] std::size_t size(std::size_t index) const noexcept override
  {
    return ranges_[index].size;
  }
  [[nodiscard]] access rights(std::size_t index) const noexcept override
  {
    return ranges_[index].rights;
  }
  [[nodiscard]] io_executor executor() const noexcept override;
  [[nodiscard]] std::size_t content_bytes() const noexcept;
  void transfer(const io_executor& executor, const part& what, size_handler handler) override;

private:
  friend class bulk_transfer;
  friend class server_connection;

  const std::shared_ptr<server_connection> by_;
  const std::uint32_t number_; // of the call
  const std::vector<exposed_range> ranges_;

  // With the connection's mutex
  std::uint32_t active_ = 0;       // transfers
  bool ended_ = false;             // no more transfers
  std::vector<std::byte> leaving_; // the message that is sent when the transfers have ended
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_CALL_MEMORY_HPP
