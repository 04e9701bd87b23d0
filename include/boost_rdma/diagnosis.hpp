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

/// Details of a failure in addition to its error_code.
struct diagnosis
{
  error_code code;                     ///< cause of the failure; success if nothing failed
  std::string operation;               ///< operation that failed: "send", "read", "connect", ...
  std::string device;                  ///< name of the device
  std::uint8_t port = 0;               ///< port of the device
  std::uint32_t queue_pair_number = 0; ///< local queue pair number
  std::uint32_t vendor_error = 0;      ///< ibv_wc::vendor_err, for the device's vendor

  /// Details: the error that the device reported, or the feature that is missing.
  std::string reason;

  /// Returns one or two sentences for display: the failure, its place, the likely cause and its
  /// remedy.
  [[nodiscard]] std::string text() const;
};

} // namespace rdma

#endif // BOOST_RDMA_DIAGNOSIS_HPP
