//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_LIMITED_DEVICE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_LIMITED_DEVICE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include "resource/device_impl.hpp"
#include "resource/domain_impl.hpp"
#include "verbs/software/software.hpp"

#include <atomic>
#include <cerrno>
#include <limits>
#include <memory>

// A device that refuses registrations, as devices with a limit of locked memory do.

namespace test {

/// Counts registrations and decides which ones are refused.
struct registrations
{
  static inline std::atomic<int> asked{0};
  static inline std::atomic<int> standing{0};
  static inline std::atomic<int> fail_at{0}; ///< the number of the refused one, from 1
  static inline std::atomic<std::size_t> size_max{std::numeric_limits<std::size_t>::max()};
  static inline std::atomic<std::size_t> bytes{0}; ///< currently registered
  static inline std::atomic<std::size_t> bytes_max{std::numeric_limits<std::size_t>::max()};

  static ibv_mr* make(ibv_pd* pd, void* address, std::size_t length, int access)
  {
    if (++asked == fail_at || length > size_max || length > bytes_max - bytes)
    {
      errno = ENOMEM;
      return nullptr;
    }
    ibv_mr* const made = rdma::software::api().reg_mr(pd, address, length, access);
    standing += made != nullptr;
    bytes += made != nullptr ? length : 0;
    return made;
  }
  static int end(ibv_mr* region)
  {
    --standing;
    bytes -= region->length;
    return rdma::software::api().dereg_mr(region);
  }

  registrations()
  {
    asked = standing = fail_at = 0;
    bytes = 0;
    size_max = bytes_max = std::numeric_limits<std::size_t>::max();
  }
};

/// Returns a context of the software device whose registrations `registrations` controls. All such
/// contexts share one limit, as in a process.
inline rdma::context counted_context()
{
  static const rdma::verbs::api table = []
  {
    rdma::verbs::api result = rdma::software::api();
    result.reg_mr = &registrations::make;
    result.dereg_mr = &registrations::end;
    return result;
  }();
  rdma::context_options options;
  options.device = "soft0";
  auto devices = std::make_shared<rdma::detail::device_set>(options);
  ibv_context* const opened = rdma::software::open_device(options.software);
  REQUIRE(opened != nullptr);
  devices->devices[rdma::detail::software_index] =
    std::make_unique<rdma::detail::device_impl>(table, opened, rdma::device_kind::software);
  return rdma::context(rdma::detail::domain_impl::make(devices));
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_LIMITED_DEVICE_HPP
