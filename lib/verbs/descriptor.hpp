//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_DESCRIPTOR_HPP
#define BOOST_RDMA_LIB_VERBS_DESCRIPTOR_HPP

#include <utility>

#include <unistd.h>

namespace rdma::detail {

// Owns a file descriptor.
class descriptor
{
public:
  descriptor() = default;
  explicit descriptor(int fd) noexcept
    : fd_(fd)
  {
  }
  descriptor(descriptor&& other) noexcept
    : fd_(other.release())
  {
  }
  descriptor& operator=(descriptor&& other) noexcept
  {
    if (this != &other)
    {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  ~descriptor() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept
  {
    if (fd_ >= 0)
      ::close(std::exchange(fd_, -1));
  }

private:
  int fd_ = -1;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_VERBS_DESCRIPTOR_HPP
