//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/verbs_fixture.hpp"

#include "verbs/software/software.hpp"

#include <boost_rdma/native.hpp>

#include <array>
#include <string>
#include <vector>

// Tests which requests are posted with IBV_SEND_INLINE. The library does not promise that the
// user's buffer is reusable at once.

using namespace test;

namespace {

// Records all requests that the queue pairs of a context post.
class posting_watch
{
public:
  struct entry
  {
    ibv_wr_opcode opcode;
    std::size_t size;
    bool is_inline;
  };

  explicit posting_watch(const rdma::queue_pair& of)
    : context_(of.native_handle()->context)
    , post_send_(context_->ops.post_send)
  {
    current = this;
    context_->ops.post_send = &look;
  }
  ~posting_watch()
  {
    context_->ops.post_send = post_send_;
    current = nullptr;
  }
  posting_watch(const posting_watch&) = delete;
  posting_watch& operator=(const posting_watch&) = delete;

  std::vector<entry> seen;

private:
  static int look(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad)
  {
    for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next)
    {
      std::size_t size = 0;
      for (int i = 0; i < wr->num_sge; ++i)
        size += wr->sg_list[i].length;
      current->seen.push_back({wr->opcode, size, (wr->send_flags & IBV_SEND_INLINE) != 0});
    }
    return current->post_send_(qp, list, bad);
  }

  inline static posting_watch* current = nullptr;
  ibv_context* context_;
  int (*post_send_)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
};

std::uint32_t granted_inline(const rdma::queue_pair& of)
{
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  REQUIRE(api_under_test().query_qp(of.native_handle(), &attributes, IBV_QP_CAP, &initial) == 0);
  return initial.cap.max_inline_data;
}

rdma::queue_pair_options with_inline(std::uint32_t size)
{
  rdma::queue_pair_options options;
  options.max_inline_data = size;
  return options;
}

rdma::context with_device_limit(std::uint32_t size)
{
  rdma::context_options options;
  options.software.max_inline_data = size;
  return make_context(options);
}

// Returns true if the buffer contains the text of check_inline(), and overwrites it.
bool arrived(const rdma::const_buffer& where)
{
  const bool good = text_of(where) == std::string(where.size(), 'i');
  std::memset(const_cast<void*>(where.data()), '.', where.size());
  return good;
}

// Sends the text by every operation to `target`, or to a receive.
void send_by_every_operation(
  linked_pair& l, const rdma::registered_buffer& text, const rdma::memory_region& target)
{
  const std::size_t size = text.size();
  rdma::registered_buffer into = l.far_context.allocate(size);
  bytes_record r;
  message_record m;
  const auto run = [&](bool receives)
  {
    REQUIRE(run_until(l.io, [&] { return r.done() && (!receives || m.done()); }));
    CHECK(r.ec == error_code());
    CHECK(r.value() == size);
    CHECK(arrived(
      receives && !m.value().written ? rdma::const_buffer(into) : rdma::const_buffer(target)));
    r = {};
    m = {};
  };
  const auto receive = [&] { l.far.async_receive_message(into, m.handler()); };

  receive();
  l.near.async_send(text, r.handler());
  run(true);
  receive();
  l.near.async_send_with_immediate(text, 1, r.handler());
  run(true);
  l.near.async_write(text, target.remote(), r.handler());
  run(false);
  receive();
  l.near.async_write_with_immediate(text, target.remote(), 1, r.handler());
  run(true);
  // The total size of the buffers counts.
  const std::array<rdma::const_buffer, 2> buffers{text.first(size / 2), text.slice(size / 2)};
  receive();
  l.near.async_send(buffers, r.handler());
  run(true);
  // Each request of a batch counts separately.
  rdma::batch batch;
  batch.write(text, target.remote());
  l.near.async_submit(batch, r.handler());
  run(false);
}

// Sends this number of bytes by every operation and checks the posted requests and the received
// data.
void check_inline(linked_pair& l, std::size_t size, bool expected)
{
  CAPTURE(size, expected);
  rdma::registered_buffer text = buffer_of(l.near_context, std::string(size, 'i'));
  rdma::memory_region target(l.far_context, size, exposed);
  rdma::memory_region back(l.near_context, size);
  posting_watch watch(l.near);
  send_by_every_operation(l, text, target);
  REQUIRE(watch.seen.size() == 6);
  for (const auto& each : watch.seen)
  {
    CAPTURE(each.opcode);
    CHECK(each.size == size);
    CHECK(each.is_inline == expected);
  }

  // Reads are never inline.
  std::memset(target.data(), 'i', size);
  bytes_record r;
  l.near.async_read(back, target.remote(), r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(arrived(back));
  REQUIRE(watch.seen.size() == 7);
  CHECK(watch.seen[6].opcode == IBV_WR_RDMA_READ);
  CHECK_FALSE(watch.seen[6].is_inline);
}

} // namespace

TEST_CASE("sends and writes are inline up to max_inline_data")
{
  const std::uint32_t limit = GENERATE(1u, 64u, 220u, 512u);
  linked_pair l(with_inline(limit));
  CHECK(l.near.options().max_inline_data == limit);
  CHECK(granted_inline(l.near) >= limit);
  check_inline(l, limit, true);
  check_inline(l, limit + 1, false);
}

TEST_CASE("no request is inline when max_inline_data is zero")
{
  linked_pair l(with_inline(0));
  CHECK(l.near.options().max_inline_data == 0);
  check_inline(l, 1, false);
}

TEST_CASE("options() returns the lowered max_inline_data when the device supports less")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // its limit is configurable
  linked_pair l;
  l.near_context = with_device_limit(96);
  const std::uint32_t wanted = GENERATE(97u, 220u, 100'000u, UINT32_MAX);
  CAPTURE(wanted);
  l.near = rdma::queue_pair(l.io, l.near_context, with_inline(wanted));
  l.far = rdma::queue_pair(l.io, l.far_context);
  connect(l.near, l.far);
  const std::uint32_t limit = l.near.options().max_inline_data;
  CHECK(limit <= 96);
  // The library halves the value until the device accepts it, so it is at least half of the limit.
  CHECK(limit >= 48);
  CHECK(granted_inline(l.near) == limit);
  check_inline(l, limit, true);
  check_inline(l, limit + 1, false);
}

TEST_CASE("no request is inline when the device supports no inline data")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // its limit is configurable
  linked_pair l;
  l.near_context = with_device_limit(0);
  l.near = rdma::queue_pair(l.io, l.near_context);
  l.far = rdma::queue_pair(l.io, l.far_context);
  connect(l.near, l.far);
  CHECK(l.near.options().max_inline_data == 0);
  check_inline(l, 1, false);
}
