//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/early_receive.hpp"

#include "boost_rdma/detail/initiate.hpp"
#include "completion/queue_pair_core.hpp"

#include <utility>

namespace rdma::detail {

early_receive::early_receive(const context& owner)
  : memory_(owner.allocate(size_max))
{
}

void early_receive::post(queue_pair_core& by)
{
  by.count_as_work(false); // nor do the stream's later receives
  const start_operation<receive_result> receive(&by);
  receive(
    by.io_executor(),
    [self = shared_from_this()](const error_code& ec, std::size_t size)
    {
      self->ec_ = ec;
      self->size_ = size;
      self->come();
    },
    request{.kind = request_kind::receive}, const_buffer(memory_));
}

void early_receive::hand_over(taker by)
{
  taker_ = std::move(by);
  come();
}

void early_receive::come()
{
  // Passes what the first call stored to the second one.
  if (one_came_.test_and_set(std::memory_order_acq_rel))
    taker_(ec_, memory_.first(size_));
}

} // namespace rdma::detail
