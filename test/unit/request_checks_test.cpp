//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/batch_requests.hpp"
#include "completion/request_checks.hpp"

#include "common/catch.hpp"

#include <boost_rdma/batch.hpp>

#include <boost/asio/error.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

// Tests the rules for requests, without a device: the limits are values.

namespace {

using namespace rdma::detail;
using rdma::access;
using rdma::const_buffer;
using rdma::error;
using rdma::error_code;
using rdma::remote_buffer;
namespace features = rdma::device_features;

constexpr auto not_supported = boost::asio::error::operation_not_supported;

/// Memory that is registered in the domain of `limits`, and an operation with room for four SGEs.
struct fixture
{
  fixture()
  {
    // The rules compare the pointer only.
    limits.domain = reinterpret_cast<const domain_impl*>(memory.data());
    limits.device_index = 1;
    limits.message_size_max = 100;
    limits.send_sge_max = 2;
    limits.receive_sge_max = 3;
    owner.domain = limits.domain;
    owner.local_keys = {7, 8};
    op.sges = sges.data();
    op.registrations = registrations.data();
    op.origins = origins.data();
    begin_request(op);
  }

  const_buffer bytes(std::size_t n) { return {memory.data(), n, &owner}; }
  remote_buffer remote(std::size_t n, access rights = rdma::remote_access, std::uint32_t key = 9)
  {
    return {0x1000, n, {0, key}, rights};
  }
  error_code add(request_kind kind, const const_buffer& buffer, bool inlined = false)
  {
    error_code ec;
    op.what.kind = kind;
    add_buffer(op, buffer, nullptr, inlined, limits, ec);
    return ec;
  }

  std::array<std::byte, 256> memory{};
  request_limits limits;
  registration owner;
  operation op;
  std::array<ibv_sge, 4> sges{};
  std::array<registration*, 4> registrations{};
  std::array<void*, 4> origins{};
};

TEST_CASE_METHOD(fixture, "an accepted buffer is stored with the key of the device")
{
  CHECK_FALSE(add(request_kind::send, bytes(60)));
  CHECK_FALSE(add(request_kind::send, bytes(40)));
  CHECK(op.sge_count == 2);
  CHECK(op.bytes == 100);
  CHECK(sges[1].lkey == 8);
  CHECK(sges[1].length == 40);
  CHECK(registrations[1] == &owner);
}

TEST_CASE_METHOD(fixture, "a buffer is refused by the rule that it violates")
{
  registration other;
  registration constant;
  constant.domain = limits.domain;
  constant.read_only = true;
  const const_buffer plain(memory.data(), 10, nullptr);
  const const_buffer foreign(memory.data(), 10, &other);
  const const_buffer read_only(memory.data(), 10, &constant);
  CHECK(add(request_kind::send, plain) == error::not_registered);
  CHECK(add(request_kind::send, foreign) == error::wrong_context);
  CHECK(add(request_kind::receive, read_only) == error::read_only);
  CHECK(add(request_kind::read, read_only) == error::read_only);
  CHECK(add(request_kind::send, bytes(101)) == error::message_too_large);
  CHECK(op.sge_count == 0);
  CHECK_FALSE(add(request_kind::send, read_only));
  CHECK(add(request_kind::send, bytes(91)) == error::message_too_large);
  CHECK_FALSE(add(request_kind::send, plain, true));
  CHECK(sges[1].lkey == 0);
  CHECK(add(request_kind::send, bytes(1)) == error::too_many_buffers);
  CHECK_FALSE(add(request_kind::receive, bytes(1)));
  CHECK(add(request_kind::receive, bytes(1)) == error::too_many_buffers);
}

TEST_CASE_METHOD(fixture, "a one-sided request is checked against the remote memory")
{
  const auto check = [&](request_kind kind, const remote_buffer& there, std::size_t n)
  {
    error_code ec;
    request what;
    what.kind = kind;
    what.remote = there;
    const bool passed = check_remote(what, n, limits, ec);
    CHECK(passed == !ec);
    return ec;
  };
  CHECK_FALSE(check(request_kind::send, remote_buffer(), 50));
  CHECK_FALSE(check(request_kind::write, remote(50), 50));
  CHECK_FALSE(check(request_kind::read, remote(50), 50));
  CHECK(check(request_kind::write, remote(49), 50) == error::remote_range_too_small);
  CHECK(check(request_kind::write, remote(50, rdma::remote_access, 0), 50) == error::no_remote_key);
  CHECK(
    check(request_kind::write, remote(50, access::remote_read), 50) == error::remote_right_missing);
  CHECK(
    check(request_kind::read, remote(50, access::remote_write), 50) == error::remote_right_missing);
  CHECK_FALSE(check(request_kind::write_with_immediate, remote_buffer(), 0));
}

TEST_CASE_METHOD(fixture, "an atomic needs an aligned value with a key and the right")
{
  const auto check = [&](const remote_buffer& there)
  {
    error_code ec;
    request what;
    what.kind = request_kind::fetch_add;
    what.remote = there;
    const bool passed = check_atomic(what, limits, ec);
    CHECK(passed == !ec);
    return ec;
  };
  CHECK_FALSE(check(remote(8)));
  CHECK(check(remote(7)) == error::misaligned_atomic);
  CHECK(check({0x1004, 8, {0, 9}, rdma::remote_access}) == error::misaligned_atomic);
  CHECK(check(remote(8, rdma::remote_access, 0)) == error::no_remote_key);
  CHECK(check(remote(8, access::remote_write)) == error::remote_right_missing);
}

TEST_CASE_METHOD(fixture, "a feature that one of the devices lacks is named")
{
  const auto check = [&](request_kind kind, std::uint64_t here, std::uint64_t there)
  {
    limits.features = here;
    limits.peer_features = there;
    error_code ec;
    const char* lacking = nullptr;
    const bool passed = check_features(kind, limits, ec, lacking);
    CHECK(passed == !ec);
    if (!passed)
      CHECK(ec == not_supported);
    return std::string(lacking != nullptr ? lacking : "");
  };
  const std::uint64_t all = features::unknown;
  CHECK(check(request_kind::fetch_add, all, all).empty());
  CHECK(check(request_kind::compare_exchange, all & ~features::atomics, all).find("the device has")
    == 0);
  CHECK(check(request_kind::fetch_add, all, 0).find("the peer's device has no atomics") == 0);
  CHECK(check(request_kind::send_with_immediate, 0, all).find("iWARP") == 0);
  CHECK(check(request_kind::write_with_immediate, all, 0).find("the peer's device") == 0);
  CHECK(check(request_kind::send, 0, 0).empty());
  CHECK(check(request_kind::write, 0, 0).empty());

  limits.receive_sge_max = 0; // a shared receive queue
  error_code ec;
  const char* lacking = nullptr;
  CHECK_FALSE(check_features(request_kind::receive, limits, ec, lacking));
  CHECK(ec == not_supported);
  CHECK(lacking == nullptr);
}

TEST_CASE_METHOD(fixture, "a batch is refused by the first rule that a request violates")
{
  const auto check = [&](const rdma::batch& all)
  {
    error_code ec;
    const char* lacking = nullptr;
    op.bytes = 0;
    op.what.batch = &all;
    const bool passed = check_batch(op, limits, ec, lacking);
    CHECK(passed == !ec);
    return ec;
  };
  const const_buffer plain(memory.data(), 10, nullptr);
  const std::vector<const_buffer> many(sge_max + 1, bytes(1));
  CHECK_FALSE(check(rdma::batch().send(bytes(10)).write(bytes(20), remote(20))));
  CHECK(op.bytes == 30);
  CHECK_FALSE(check(rdma::batch().send(rdma::no_data)));
  CHECK(check(rdma::batch()) == error::bad_batch);
  CHECK(check(rdma::batch().send(bytes(1)).send(plain)) == error::not_registered);
  CHECK(check(rdma::batch().send(bytes(0))) == error::empty_buffer);
  CHECK(
    check(rdma::batch().send(std::array{bytes(1), bytes(1), bytes(1)})) == error::too_many_buffers);
  CHECK(check(rdma::batch().send(many)) == error::too_many_buffers);
  CHECK(check(rdma::batch().write(bytes(2), remote(1))) == error::remote_range_too_small);
  limits.send_sge_max = sge_max;
  CHECK(check(rdma::batch().send(many)) == error::too_many_buffers);
  limits.peer_features = 0;
  CHECK(check(rdma::batch().send_with_immediate(bytes(1), 5)) == not_supported);
}

TEST_CASE_METHOD(fixture, "only a single registered buffer takes the short way")
{
  const auto plain = [&](request_kind kind, const auto& buffers)
  { return is_plain_request(kind, buffer_list(buffers), limits); };
  CHECK(plain(request_kind::send, bytes(1)));
  CHECK(plain(request_kind::receive, bytes(1)));
  CHECK(plain(request_kind::read, bytes(1)));
  CHECK(plain(request_kind::write, bytes(1)));
  CHECK_FALSE(plain(request_kind::send, bytes(0)));
  CHECK_FALSE(plain(request_kind::send, const_buffer(memory.data(), 10, nullptr)));
  CHECK_FALSE(plain(request_kind::send, std::array{bytes(1), bytes(1)}));
  CHECK_FALSE(plain(request_kind::send, rdma::no_data));
  CHECK_FALSE(plain(request_kind::send_with_immediate, bytes(1)));
  CHECK_FALSE(plain(request_kind::bind_window, bytes(1)));
  limits.receive_sge_max = 0;
  CHECK_FALSE(plain(request_kind::receive, bytes(1)));
}

} // namespace
