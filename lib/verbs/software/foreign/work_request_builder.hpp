//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_WORK_REQUEST_BUILDER_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_WORK_REQUEST_BUILDER_HPP

#include "verbs/software/objects/extension.hpp"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace rdma::software {

/// Collects the work requests since ibv_wr_start(), to post all of them or none (ibv_wr_post(3)).
/** Keeps its memory from one batch to the next. */
class work_request_builder final : public extension_state
{
public:
  /// For the operations in `allowed` (IBV_QP_EX_WITH_*). `single_threaded`: the queue pair belongs
  /// to a thread domain.
  work_request_builder(ibv_qp_type service, std::uint64_t allowed, bool single_threaded) noexcept
    : service_(service)
    , allowed_(allowed)
    , single_threaded_(single_threaded)
  {
  }

  /// Begins a batch; other threads wait here until it has ended.
  void start();

  /// Adds a work request, which the setters change from now on. After an error, another object is
  /// returned, which has no effect.
  ibv_send_wr& add(ibv_wr_opcode opcode, std::uint64_t id, unsigned flags) noexcept;

  void set_elements(std::span<const ibv_sge> list) noexcept;
  void set_inline(std::span<const ibv_data_buf> list, std::size_t most) noexcept;
  void set_address(ibv_ah* ah, std::uint32_t qp, std::uint32_t key) noexcept;
  void set_queue(std::uint32_t srq) noexcept;

  /// This batch cannot be posted; the first reason counts.
  void fail(int error) noexcept;

  /// Sets `first` to the batch as a list, or to null when it is empty. Returns 0 or an errno.
  int list(ibv_send_wr*& first) noexcept;

  void end() noexcept;

private:
  struct part // of elements_ or bytes_
  {
    std::size_t offset = 0;
    std::size_t size = 0;
    bool set = false;
    bool addressed = false;
  };

  const ibv_qp_type service_;
  const std::uint64_t allowed_;
  const bool single_threaded_;
  std::mutex batch_;
  int error_ = 0;
  std::vector<ibv_send_wr> requests_;
  std::vector<part> parts_;
  std::vector<ibv_sge> elements_;
  std::vector<std::byte> bytes_;
  ibv_send_wr unused_{};
};

/// Returns the operations that queue pairs of this service support (IBV_QP_EX_WITH_*).
std::uint64_t operations_of(ibv_qp_type service) noexcept;

/// Sets all functions of an extended queue pair. Operations that are not permitted fail in
/// ibv_wr_complete().
void set_builder_functions(ibv_qp_ex& to) noexcept;

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_FOREIGN_WORK_REQUEST_BUILDER_HPP
