//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_CONTENT_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_CONTENT_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace rdma::detail::rpc {

// The content of a bulk call at one of its members, without I/O: how many bytes the member has, and
// which ones each member below it gets next (doc/rpc_protocol.md).
class group_content
{
public:
  // Most bytes of an offer. Smaller parts reach the last member earlier, but each costs a call.
  static constexpr std::size_t part_max = 1024 * 1024;

  // The root has all bytes at the beginning.
  group_content(std::uint64_t size, bool is_root)
    : size_(size)
    , here_(is_root ? size : 0)
  {
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Returns the number of bytes that are here, from the first on.
  [[nodiscard]] std::uint64_t here() const { return here_; }
  [[nodiscard]] bool is_complete() const { return here_ == size_; }

  // --- parts that other members offer ---

  enum class verdict : std::uint8_t
  {
    malformed,
    not_next,   // the answer is here()
    pull,       // the bytes are pulled; ends by take_pulled()
    pull_aside, // the same into new memory, because a pull that is superseded may write to the old
  };
  struct offer
  {
    verdict is{};
    std::uint64_t number = 0;     // of the pull
    std::uint64_t superseded = 0; // of the one before; 0: none
  };
  [[nodiscard]] offer take_offer(std::uint64_t offset, std::uint64_t bytes);

  // Takes back the offer that was taken last: there is no memory for it.
  void refuse(const offer& what);

  // A pull has ended; with 0 bytes: without success. Returns true if the content is complete now.
  // One that was superseded has no effect.
  [[nodiscard]] bool take_pulled(std::uint64_t number, std::uint64_t bytes);

  // Returns true if a pull is under way that was not superseded.
  [[nodiscard]] bool is_pulling() const { return pull_ != 0; }

  // --- members below this one ---

  // It has received the call, over a new connection.
  void add_child(std::uint32_t place);
  // It gets no more parts. The answer to the last one has no effect.
  void remove_child(std::uint32_t place);

  struct part
  {
    std::uint32_t place = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  // Returns the parts that must be offered now: one at a time to each child. Each ends by
  // take_progress(), add_child() or remove_child().
  [[nodiscard]] std::vector<part> take_parts();

  // The child has answered that it has so many bytes. Returns false if that is no answer to the
  // part. Each answer is a larger number, so that offers end.
  [[nodiscard]] bool take_progress(std::uint32_t place, std::uint64_t bytes);

private:
  struct child
  {
    std::uint64_t here = 0;
    bool is_asked = false; // it has not answered the last offer
  };

  const std::uint64_t size_;
  std::uint64_t here_;
  std::uint64_t pull_ = 0; // number of the one under way; 0: none
  std::uint64_t last_pull_ = 0;
  std::map<std::uint32_t, child> children_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_CONTENT_HPP
