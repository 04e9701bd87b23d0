//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_EXPOSED_MEMORY_HPP
#define BOOST_RDMA_LIB_RPC_EXPOSED_MEMORY_HPP

#include "boost_rdma/detail/rpc/call.hpp"
#include "boost_rdma/rpc/exposure.hpp"
#include "completion/queue_pair_core.hpp"
#include "resource/kept_registration.hpp"
#include "resource/window_impl.hpp"
#include "rpc/message.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace rdma::detail::rpc {

// The memory that a call of a client exposes. The connection's mutex guards it.
class exposed_memory
{
public:
  struct range
  {
    const_buffer memory;
    access rights;
    kept_registration kept;
    std::shared_ptr<window_impl> window; // null: the bytes travel in messages
  };

  // Returns invalid_argument for what cannot be exposed.
  static error_code check(std::span<const rdma::rpc::exposure> what);

  // `by` is the queue pair of the connection, or null. May throw std::bad_alloc.
  exposed_memory(std::span<const rdma::rpc::exposure> what, const queue_pair_core* by);

  ~exposed_memory()
  {
    if (ended != nullptr)
      ended->remove(); // the execution context is gone
  }
  exposed_memory(const exposed_memory&) = delete;
  exposed_memory& operator=(const exposed_memory&) = delete;

  // Appends the message of the call.
  void describe(std::uint32_t number, std::vector<std::byte>& to) const;

  [[nodiscard]] const std::vector<range>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] bool has_windows() const noexcept;

  // Returns the part, or nothing if the peer may not do that by messages.
  [[nodiscard]] std::span<const std::byte> find(
    std::size_t index, const exposed_part& part, access wanted) const noexcept;

  // When it returns, the peer has no access by windows. Precondition: no bind is outstanding.
  void close() noexcept;

  std::uint32_t binds = 0; // outstanding
  call* ended = nullptr;   // waits for them

private:
  std::vector<range> ranges_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_EXPOSED_MEMORY_HPP
