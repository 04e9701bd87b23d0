//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_MESSAGE_READER_HPP
#define BOOST_RDMA_LIB_RPC_MESSAGE_READER_HPP

#include "rpc/message.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rdma::detail::rpc {

// Puts messages together that arrive in parts.
class message_reader
{
public:
  // Contents of more bytes are malformed.
  explicit message_reader(std::size_t content_max) noexcept
    : content_max_(content_max)
  {
  }

  // Calls take(m, content) for each message that is complete with these bytes, until it returns
  // false. `content` is a vector that take() may move from. Removes the bytes that were read.
  // Returns false if they are malformed.
  template <class Take>
  bool read(std::span<const std::byte>& bytes, Take take)
  {
    while (!bytes.empty())
    {
      if (!current_)
      {
        bytes = fill(bytes, std::span(header_).subspan(filled_));
        if (filled_ != message::header_size)
          return true;
        filled_ = 0;
        current_ = message::decode(header_);
        if (!current_ || current_->size > content_max_)
          return false;
        content_.clear();
      }
      // The content grows as it arrives: its size is the peer's word.
      const std::size_t part = std::min(bytes.size(), current_->size - content_.size());
      content_.insert(
        content_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
      bytes = bytes.subspan(part);
      if (content_.size() != current_->size)
        return true;
      const message m = *current_;
      current_.reset();
      if (!take(m, content_))
        return true;
    }
    return true;
  }

private:
  std::span<const std::byte> fill(std::span<const std::byte> from, std::span<std::byte> to) noexcept
  {
    const std::size_t part = std::min(from.size(), to.size());
    std::ranges::copy(from.first(part), to.begin());
    filled_ += part;
    return from.subspan(part);
  }

  const std::size_t content_max_;
  std::array<std::byte, message::header_size> header_{};
  std::size_t filled_ = 0; // of the header
  std::optional<message> current_;
  std::vector<std::byte> content_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_MESSAGE_READER_HPP
