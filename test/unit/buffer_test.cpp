//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include <boost_rdma/access.hpp>
#include <boost_rdma/batch.hpp>
#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/operation.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/registered_buffer.hpp>

#include <boost/asio/buffer.hpp>

#include <array>
#include <deque>
#include <list>
#include <span>
#include <string>
#include <vector>

using rdma::const_buffer;
using rdma::const_buffer_sequence;
using rdma::mutable_buffer;
using rdma::mutable_buffer_sequence;

static_assert(const_buffer_sequence<const_buffer>);
static_assert(const_buffer_sequence<mutable_buffer>);
static_assert(const_buffer_sequence<rdma::registered_buffer>);
static_assert(const_buffer_sequence<rdma::memory_region>);
static_assert(const_buffer_sequence<rdma::no_data_t>);
static_assert(const_buffer_sequence<std::array<const_buffer, 2>>);
static_assert(const_buffer_sequence<std::vector<mutable_buffer>>);
static_assert(const_buffer_sequence<std::list<const_buffer>>);
static_assert(const_buffer_sequence<std::deque<rdma::registered_buffer>>);
static_assert(const_buffer_sequence<std::span<const rdma::memory_region>>);
static_assert(const_buffer_sequence<const_buffer[3]>);

static_assert(mutable_buffer_sequence<mutable_buffer>);
static_assert(mutable_buffer_sequence<rdma::registered_buffer>);
static_assert(mutable_buffer_sequence<rdma::memory_region>);
static_assert(mutable_buffer_sequence<rdma::no_data_t>);
static_assert(mutable_buffer_sequence<std::vector<rdma::registered_buffer>>);
static_assert(mutable_buffer_sequence<std::span<const mutable_buffer>>);
static_assert(!mutable_buffer_sequence<const_buffer>);
static_assert(!mutable_buffer_sequence<std::vector<const_buffer>>);

// Plain memory: Asio's buffers, or a span of data.
static_assert(const_buffer_sequence<boost::asio::const_buffer>);
static_assert(const_buffer_sequence<boost::asio::mutable_buffer>);
static_assert(mutable_buffer_sequence<boost::asio::mutable_buffer>);
static_assert(!mutable_buffer_sequence<boost::asio::const_buffer>);
static_assert(const_buffer_sequence<std::array<boost::asio::const_buffer, 2>>);
static_assert(mutable_buffer_sequence<std::vector<boost::asio::mutable_buffer>>);
static_assert(const_buffer_sequence<std::span<const boost::asio::const_buffer>>);
static_assert(const_buffer_sequence<std::span<const double>>);
static_assert(const_buffer_sequence<std::span<char, 4>>);
static_assert(mutable_buffer_sequence<std::span<char>>);
static_assert(!mutable_buffer_sequence<std::span<const char>>);
static_assert(const_buffer_sequence<std::vector<std::span<const char>>>);

// A container may be a temporary that is destroyed before the operation completes.
static_assert(!const_buffer_sequence<std::string>);
static_assert(!const_buffer_sequence<std::vector<char>>);
static_assert(!const_buffer_sequence<void*>);
static_assert(!const_buffer_sequence<std::span<std::string>>);

// Owners cannot be copied by accident.
static_assert(!std::is_copy_constructible_v<rdma::registered_buffer>);
static_assert(!std::is_copy_constructible_v<rdma::memory_region>);
static_assert(std::is_nothrow_move_constructible_v<rdma::registered_buffer>);
static_assert(std::is_nothrow_move_assignable_v<rdma::memory_region>);

namespace {

char storage[100];

mutable_buffer all()
{
  return {storage, sizeof storage, nullptr};
}

} // namespace

TEST_CASE("first and slice of a buffer stay within it")
{
  const mutable_buffer b = all();
  CHECK(b.first(10).size() == 10);
  CHECK(b.first(1000).size() == 100);
  CHECK(b.slice(90).size() == 10);
  CHECK(b.slice(90).data() == storage + 90);
  CHECK(b.slice(90, 5).size() == 5);
  CHECK(b.slice(100).size() == 0);
  CHECK(b.slice(SIZE_MAX, SIZE_MAX).size() == 0);
  CHECK(b.slice(1, SIZE_MAX).size() == 99);
  const const_buffer c = b;
  CHECK(c.slice(50).first(20).data() == storage + 50);
  CHECK(c.slice(50).first(20).size() == 20);
  CHECK(c.slice(60, 100).size() == 40);
  CHECK(c.first(5).registration() == nullptr);
}

TEST_CASE("a default-constructed buffer is empty and has empty parts")
{
  const mutable_buffer b;
  CHECK(b.size() == 0);
  CHECK(b.first(5).size() == 0);
  CHECK(b.slice(5, 5).size() == 0);
  CHECK(rdma::registered_buffer().first(3).size() == 0);
  CHECK(rdma::memory_region().slice(3).size() == 0);
}

TEST_CASE("buffer_size adds up the sizes of a sequence")
{
  CHECK(rdma::buffer_size(all()) == 100);
  CHECK(rdma::buffer_size(const_buffer(all())) == 100);
  CHECK(rdma::buffer_size(rdma::no_data) == 0);
  CHECK(rdma::buffer_size(rdma::registered_buffer()) == 0);
  CHECK(rdma::buffer_size(rdma::memory_region()) == 0);
  CHECK(rdma::buffer_size(std::vector<const_buffer>()) == 0);
  CHECK(rdma::buffer_size(std::array<mutable_buffer, 3>{all(), all().first(5), mutable_buffer()})
    == 105);
}

TEST_CASE("plain memory converts to a buffer without a registration")
{
  const mutable_buffer b = boost::asio::buffer(storage, 10);
  CHECK(b.data() == storage);
  CHECK(b.size() == 10);
  CHECK(b.registration() == nullptr);
  const const_buffer c = std::span<const char>(storage).subspan(4, 8);
  CHECK(c.data() == storage + 4);
  CHECK(c.size() == 8);
  CHECK(c.slice(2).registration() == nullptr);
  // Spans of buffers are buffer sequences, not data.
  const std::array<const_buffer, 2> two{c, b};
  CHECK(rdma::buffer_size(std::span(two)) == 18);
  CHECK(rdma::detail::buffer_list(std::span(two)).size() == 2);
  const std::vector<boost::asio::const_buffer> plain{boost::asio::buffer(storage, 3), {}};
  CHECK(rdma::buffer_size(plain) == 3);
}

TEST_CASE("buffer_list keeps the order of a sequence and reports overflow when it is too long")
{
  std::vector<const_buffer> sequence;
  for (std::size_t i = 0; i < rdma::detail::sge_max; ++i)
    sequence.push_back(const_buffer(all()).slice(i, 1));
  const rdma::detail::buffer_list fits(sequence);
  CHECK(fits.size() == rdma::detail::sge_max);
  CHECK_FALSE(fits.overflow());
  CHECK_FALSE(fits.no_data());
  std::size_t i = 0;
  for (const const_buffer& buffer : fits)
    CHECK(buffer.data() == storage + i++);
  sequence.push_back(all());
  CHECK(rdma::detail::buffer_list(sequence).overflow());
  CHECK(rdma::detail::buffer_list(rdma::no_data).no_data());
  CHECK(rdma::detail::buffer_list(all()).size() == 1);
}

TEST_CASE("a batch records its operations in order and is reusable after clear")
{
  rdma::batch batch;
  CHECK(batch.empty());
  const rdma::remote_buffer remote(64, 64, {1, 1}, rdma::remote_access);
  batch.send(all().first(1))
    .send_with_immediate(std::array<const_buffer, 2>{all().first(2), all().first(3)}, 7)
    .write(all(), remote)
    .write_with_immediate(rdma::no_data, remote, 8)
    .read(all().first(5), remote);
  REQUIRE(batch.size() == 5);
  using kind = rdma::detail::request_kind;
  const kind kinds[] = {
    kind::send, kind::send_with_immediate, kind::write, kind::write_with_immediate, kind::read};
  const std::uint32_t first[] = {0, 1, 3, 4, 4};
  const std::uint32_t count[] = {1, 2, 1, 0, 1};
  for (std::size_t i = 0; i < 5; ++i)
  {
    CHECK(batch.entries()[i].what.kind == kinds[i]);
    CHECK(batch.entries()[i].first_buffer == first[i]);
    CHECK(batch.entries()[i].sge_count == count[i]);
    CHECK(batch.entries()[i].no_data == (i == 3));
  }
  CHECK(batch.entries()[1].what.immediate == 7);
  batch.clear();
  CHECK(batch.empty());
  CHECK(batch.buffers().empty());
}

TEST_CASE("access rights combine and permits tests all of them")
{
  using rdma::access;
  constexpr access rw = access::local_write | access::remote_write;
  static_assert(rdma::permits(rw, access::local_write));
  static_assert(rdma::permits(rw, rw));
  static_assert(rdma::permits(rw, access::local_read)); // always permitted
  static_assert(!rdma::permits(rw, access::remote_read));
  static_assert(!rdma::permits(rw, access::remote_write | access::remote_read));
  static_assert((rw & rdma::remote_access) == access::remote_write);
  static_assert(!rdma::permits(rdma::remote_access, access::local_write));
  static_assert(!rdma::permits(rdma::remote_access, access::window_bind));
}
