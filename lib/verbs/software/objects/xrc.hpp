//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_XRC_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_XRC_HPP

#include "verbs/software/objects/memory.hpp"

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

namespace rdma::software {

struct shared_receive_queue;

/// A domain of extended reliable connections (IBA annex A14): target queue pairs, and the shared
/// receive queues that their peers can name.
struct xrc_domain : ibv_xrcd
{
  /// The protection domain of target queue pairs, to which no key belongs. Its users are all
  /// objects of the XRC domain.
  protection_domain targets;

  dev_t device = 0; ///< of the file, if there is one
  ino_t inode = 0;
  std::uint32_t opened = 1; ///< calls of ibv_open_xrcd(3) without ibv_close_xrcd(3)
};

/// The XRC domains of a context that have a file, and the shared receive queues of all domains.
class xrc_table
{
public:
  /// Returns the domain of the file, or makes one; null with errno set on failure. May throw
  /// std::bad_alloc.
  xrc_domain* open(ibv_context* context, const ibv_xrcd_init_attr& with);

  /// Returns 0 or EBUSY.
  int close(xrc_domain& which) noexcept;

  /// Gives the queue a number. Returns 0 or an errno.
  int add(shared_receive_queue& queue) noexcept;

  void remove(const shared_receive_queue& queue) noexcept;

  /// Returns the queue with this number if it is in the domain of this target; otherwise null.
  shared_receive_queue* find(std::uint32_t number, const protection_domain& target) noexcept;

private:
  std::mutex mutex_;
  std::vector<xrc_domain*> of_files_;
  std::unordered_map<std::uint32_t, shared_receive_queue*> queues_;
  std::uint32_t last_number_ = 0;
};

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* with);
int close_xrcd(ibv_xrcd* xrcd);
/// Returns the queue pair with this number if it is a target of the domain. Each call needs one of
/// ibv_destroy_qp().
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* with);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_XRC_HPP
