//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_REFUSAL_HPP
#define BOOST_RDMA_TEST_SOFTWARE_REFUSAL_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

// Requests that the peer's device refuses.

namespace test {

// Returns the same range with other bounds than its owner exposed.
inline rdma::remote_buffer forged(
  const rdma::remote_buffer& real, std::uint64_t address, std::uint64_t size)
{
  return {address, size, real.keys(), real.rights()};
}

// Returns the same memory with all rights, which its owner did not grant.
inline rdma::remote_buffer claimed(const rdma::remote_buffer& real)
{
  return {real.address(), real.size(), real.keys(), rdma::remote_access};
}

// Checks the effects of a request that the peer's device refuses, at both ends. Create it before
// the request; the far end receives only messages without bytes, and gets none.
class refusal
{
public:
  explicit refusal(linked_pair& link)
    : l_(link)
  {
    l_.far.async_receive(rdma::no_data, far_receive_.handler());
    l_.near.async_receive(rdma::no_data, near_receive_.handler());
  }

  // Call it after the request has ended with `ec`.
  void check(const error_code& ec, rdma::wc_status expected)
  {
    CHECK(ec == expected);
    bytes_record behind;
    l_.near.async_send(rdma::no_data, behind.handler());
    // the responder enters the error state, too (IBA 9.9.3)
    REQUIRE(run_until(
      l_.io, [&] { return far_receive_.done() && near_receive_.done() && behind.done(); }));
    CHECK(behind.ec == rdma::wc_status::flushed);
    CHECK(near_receive_.ec == rdma::wc_status::flushed);
    CHECK(far_receive_.ec == rdma::wc_status::flushed);
    CHECK(far_receive_.value() == 0);
    CHECK_FALSE(l_.near.is_connected());
    CHECK_FALSE(l_.far.is_connected());
    CHECK(l_.near.diagnose().code == expected);
    bytes_record back;
    l_.far.async_send(rdma::no_data, back.handler());
    REQUIRE(run_until(l_.io, [&] { return back.done(); }));
    CHECK(back.ec == rdma::wc_status::flushed);
    CHECK(far_receive_.calls == 1);
    CHECK(near_receive_.calls == 1);
  }

private:
  linked_pair& l_;
  bytes_record far_receive_;
  bytes_record near_receive_;
};

// Checks that a send from `from` to `to` succeeds, so neither is in the error state.
template <class A, class B>
void check_alive(asio::io_context& io, A& from, B& to)
{
  bytes_record sent;
  bytes_record received;
  to.async_receive(rdma::no_data, received.handler());
  from.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_REFUSAL_HPP
