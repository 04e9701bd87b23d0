//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_USER_BUFFERS_HPP
#define BOOST_RDMA_LIB_COMPLETION_USER_BUFFERS_HPP

#include "boost_rdma/detail/operation.hpp"
#include "boost_rdma/registered_buffer.hpp"

#include <boost/container/static_vector.hpp>

#include <cstddef>
#include <memory>

namespace rdma::detail {

class domain_impl;

// The buffers of an operation, with all plain pieces made fit for the device: left alone where
// everything goes inline, copied (or to be copied at the end) through memory of the pool, or
// registered. It holds its own references to the registrations, until the operation has taken some.
class user_buffers
{
public:
  user_buffers(domain_impl& domain, request_kind kind, const buffer_list& buffers,
    std::size_t inline_max, std::size_t copy_max);
  ~user_buffers();
  user_buffers(const user_buffers&) = delete;
  user_buffers& operator=(const user_buffers&) = delete;

  [[nodiscard]] bool overflow() const noexcept { return buffers_.overflow(); }
  [[nodiscard]] bool no_data() const noexcept { return buffers_.no_data(); }

  // Why they cannot be used.
  [[nodiscard]] const error_code& obstacle() const noexcept { return obstacle_; }

  // There are plain pieces, and it all goes inline.
  [[nodiscard]] bool inlined() const noexcept { return inlined_; }

  [[nodiscard]] std::size_t size() const noexcept { return buffers_.size(); }
  [[nodiscard]] const const_buffer& operator[](std::size_t i) const noexcept
  {
    return prepared_.empty() ? buffers_.begin()[i] : prepared_[i].buffer;
  }

  // Where what the device puts into this piece is to be copied to; null where it is in its place.
  [[nodiscard]] void* origin(std::size_t i) const noexcept
  {
    return prepared_.empty() ? nullptr : prepared_[i].origin;
  }

private:
  struct entry
  {
    const_buffer buffer;
    void* origin = nullptr;
    registration* held = nullptr;
  };

  void provide(domain_impl& domain, bool writable, std::size_t copy_max);

  // Where plain memory was provided for. The operation may be over, and all else gone that keeps
  // the domain, before the references below are given back: this goes last.
  std::shared_ptr<domain_impl> domain_;
  const buffer_list& buffers_;
  boost::container::static_vector<entry, sge_max> prepared_; // as many as buffers_, or none
  registered_buffer bounce_buffers_;
  error_code obstacle_;
  bool inlined_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_USER_BUFFERS_HPP
