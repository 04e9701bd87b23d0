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

// The buffers of an operation. Plain buffers are prepared for the device: unchanged if everything
// goes inline, otherwise copied to bounce buffers (or from them at the end), or registered. The
// object owns references to the registrations until the operation has its own.
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

  // Returns the reason why the buffers cannot be used.
  [[nodiscard]] const error_code& obstacle() const noexcept { return obstacle_; }

  // Returns true if there are plain buffers, and everything goes inline.
  [[nodiscard]] bool inlined() const noexcept { return inlined_; }

  [[nodiscard]] std::size_t size() const noexcept { return buffers_.size(); }
  [[nodiscard]] const const_buffer& operator[](std::size_t i) const noexcept
  {
    return prepared_.empty() ? buffers_.begin()[i] : prepared_[i].buffer;
  }

  // Returns the destination of the bytes that the device writes to a bounce buffer; otherwise null.
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

  // Set if plain memory was prepared. Declared first, hence destroyed last: the operation, and all
  // other owners of the domain, may be gone before the references below are released.
  std::shared_ptr<domain_impl> domain_;
  const buffer_list& buffers_;
  boost::container::static_vector<entry, sge_max> prepared_; // as many as buffers_, or none
  registered_buffer bounce_buffers_;
  error_code obstacle_;
  bool inlined_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_USER_BUFFERS_HPP
