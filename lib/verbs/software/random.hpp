//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_RANDOM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_RANDOM_HPP

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include <sys/random.h>

namespace rdma::software {

/// Fills memory with random bytes for keys. Aborts if the kernel has none, because guessable keys
/// are not safe.
inline void fill_random(void* to, std::size_t size) noexcept
{
  auto* at = static_cast<unsigned char*>(to);
  while (size > 0)
  {
    const ssize_t n = ::getrandom(at, size, 0);
    if (n < 0 && errno != EINTR)
      std::abort();
    if (n > 0)
    {
      at += n;
      size -= static_cast<std::size_t>(n);
    }
  }
}

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_RANDOM_HPP
