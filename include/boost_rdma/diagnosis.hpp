//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DIAGNOSIS_HPP
#define BOOST_RDMA_DIAGNOSIS_HPP

#include <boost_rdma/error.hpp>

#include <cstdint>
#include <string>

namespace rdma {

/// What is known of a failure beyond its error_code.
struct diagnosis
{
  error_code code;                     ///< why it failed; success when nothing did
  std::string operation;               ///< what failed: "send", "read", "connect", ...
  std::string device;                  ///< the device's name
  std::uint8_t port = 0;               ///< the device's port
  std::uint32_t queue_pair_number = 0; ///< the local queue pair
  std::uint32_t vendor_error = 0;      ///< ibv_wc::vendor_err, for the device's vendor
  std::string reason; ///< what is known beyond the code: what the device reported, or lacks

  /// One or two sentences for a person: what failed, where, the likely cause and its remedy.
  [[nodiscard]] std::string text() const;
};

} // namespace rdma

#endif // BOOST_RDMA_DIAGNOSIS_HPP
