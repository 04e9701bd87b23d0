//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/lease.hpp>

#include <boost/asio/error.hpp>

namespace rdma::detail::objects {

step lease_change::begin() noexcept
{
  const lease_word desired = what_ == kind::renew ? held_.word_.renewed() : held_.word_.released();
  exchange_.expected = held_.word_.packed();
  exchange_.desired = desired.packed();
  posted_ = now_();
  return step::access(1);
}

step lease_change::next(bool cancelled) noexcept
{
  const lease_word found = lease_word::of(exchange_.content());
  if (exchange_.succeeded())
  {
    if (what_ == kind::release)
      return step::finish();
    held_.expires_at_ = holder_end(posted_, held_.lease_);
  }
  // The holder's own renewal, whose answer was lost with a connection, leaves another beat.
  else if (found.ticket != held_.word_.ticket)
    return step::finish(error::lease_ended);
  held_.word_ = found;
  if (exchange_.succeeded() && now_() < held_.expires_at_)
    return step::finish();
  if (cancelled && what_ == kind::renew)
    return step::finish(boost::asio::error::operation_aborted);
  return begin();
}

step open_leased::next(bool cancelled) noexcept
{
  if (lease_of(found()).count() == static_cast<std::int64_t>(found().lease_ms)
    && found().capacity - 1 < permits_max)
  {
    expected().lease_ms = found().lease_ms;
    expected().capacity = found().capacity;
  }
  return open_object::next(cancelled);
}

} // namespace rdma::detail::objects
