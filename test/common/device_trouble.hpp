//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_DEVICE_TROUBLE_HPP
#define BOOST_RDMA_TEST_COMMON_DEVICE_TROUBLE_HPP

#include "common/rdma_fixture.hpp"
#include "completion/completion_queue_impl.hpp"

#include <boost_rdma/device_events.hpp>

#include <infiniband/verbs.h>

#include <stdexcept>
#include <vector>

// Provokes device errors with plain verbs.

namespace test {

using event_record = record<rdma::device_event>;

inline const rdma::detail::device_impl& device_of(const rdma::context& context)
{
  return context.impl()->default_device();
}

/// A queue pair without a peer. Its receives complete on `queue`, or on its own queue of one entry.
class failing_queue_pair
{
public:
  explicit failing_queue_pair(const rdma::detail::device_impl& device, ibv_cq* queue = nullptr)
    : api_(device.api())
  {
    pd_ = need(api_.alloc_pd(device.native()));
    if (queue == nullptr)
      queue = own_ = need(api_.create_cq(device.native(), 1, nullptr, nullptr, 0));
    ibv_qp_init_attr with{};
    with.send_cq = with.recv_cq = queue;
    with.qp_type = IBV_QPT_RC;
    with.cap.max_send_wr = 1;
    // One more than fits: rxe reports every completion that does not fit.
    const int receives = queue->cqe + 1;
    with.cap.max_recv_wr = static_cast<std::uint32_t>(receives);
    with.cap.max_send_sge = with.cap.max_recv_sge = 1;
    qp_ = need(api_.create_qp(pd_, &with));
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    must(api_.modify_qp(
      qp_, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    ibv_recv_wr receive{};
    receive.wr_id = ~std::uint64_t{0}; // belongs to no operation
    for (int i = 0; i < receives; ++i)
    {
      ibv_recv_wr* bad = nullptr;
      must(ibv_post_recv(qp_, &receive, &bad));
    }
  }
  ~failing_queue_pair()
  {
    api_.destroy_qp(qp_);
    if (own_ != nullptr)
      api_.destroy_cq(own_);
    api_.dealloc_pd(pd_);
  }
  failing_queue_pair(const failing_queue_pair&) = delete;
  failing_queue_pair& operator=(const failing_queue_pair&) = delete;

  /// Flushes more receives than the completion queue holds, which raises IBV_EVENT_CQ_ERR.
  void overrun()
  {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    must(api_.modify_qp(qp_, &to, IBV_QP_STATE));
  }

private:
  template <class T>
  static T* need(T* made)
  {
    if (made == nullptr)
      throw std::runtime_error("cannot provoke the device error");
    return made;
  }
  static void must(int error)
  {
    if (error != 0)
      throw std::runtime_error("cannot provoke the device error");
  }

  const rdma::verbs::api& api_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* own_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_DEVICE_TROUBLE_HPP
