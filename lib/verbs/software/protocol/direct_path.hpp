//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_DIRECT_PATH_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_DIRECT_PATH_HPP

#include "verbs/software/protocol/work_queue.hpp"

namespace rdma::software::protocol {

/// A wire that can carry out writes, reads and atomics itself, in the peer's memory and without the
/// peer.
class direct_path
{
public:
  enum class outcome
  {
    done,
    part, ///< send_request::received bytes are done; the caller calls again for the rest
    asks, ///< the peer was asked for access; the caller calls again after the answer
    no,   ///< not possible (now): the caller sends frames, and the peer reports errors
  };

  /// Carries out a request. All requests before it have completed. Checks the local keys and the
  /// peer's permissions.
  virtual outcome run(send_request& what) noexcept = 0;

  /// Carries out a short write, with the conditions and the checks of run(). Returns false if
  /// run() must decide: nothing has completed then.
  virtual bool write_short(const send_request& what) noexcept = 0;

  /// Prepares for a large request that run() will be called for, after writes and reads before it.
  /// Returns true if the wire should first send what it has for the peer.
  virtual bool look_ahead(const send_request& what) noexcept = 0;

  /// Returns true if the request should wait until all before it have completed, because run() then
  /// probably carries it out, in less time than its frames take.
  virtual bool prefers(const send_request& what) const noexcept = 0;

  /// Accesses no memory until the next run().
  virtual void let_go() noexcept = 0;

protected:
  ~direct_path() = default;
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_DIRECT_PATH_HPP
