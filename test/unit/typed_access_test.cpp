//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/remote_buffer.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

using rdma::const_buffer;
using rdma::error_code;
using rdma::mutable_buffer;

namespace {

struct pair
{
  std::uint32_t a;
  std::uint16_t b;
};

template <class Buffer, class T>
concept can_be = requires(const Buffer& b) { b.template as<T>(); };

static_assert(can_be<mutable_buffer, pair>);
static_assert(can_be<rdma::registered_buffer, const pair>);
static_assert(can_be<rdma::memory_region, char[4]>);
static_assert(!can_be<mutable_buffer, std::string>); // not trivially copyable
static_assert(!can_be<mutable_buffer, int&>);
static_assert(!can_be<mutable_buffer, void>);

// Const buffers return only const objects.
static_assert(std::is_same_v<decltype(mutable_buffer().as<int>()), int*>);
static_assert(std::is_same_v<decltype(mutable_buffer().as<const int>()), const int*>);
static_assert(std::is_same_v<decltype(const_buffer().as<int>()), const int*>);
static_assert(std::is_same_v<decltype(const_buffer().as_span<int>()), std::span<const int>>);
static_assert(std::is_same_v<decltype(rdma::registered_buffer().as_span<int>()), std::span<int>>);
static_assert(std::is_same_v<decltype(rdma::registered_buffer().elements<int>(0)), mutable_buffer>);
static_assert(std::is_same_v<decltype(const_buffer().elements<int>(0)), const_buffer>);

alignas(64) char memory[64];

mutable_buffer part(std::size_t offset, std::size_t size)
{
  return {memory + offset, size, nullptr};
}

template <class Call>
error_code thrown_by(Call call)
{
  try
  {
    call();
  }
  catch (const rdma::system_error& e)
  {
    return e.code();
  }
  return {};
}

} // namespace

TEST_CASE("as returns the object at the start of a buffer that is large enough")
{
  pair* p = part(8, 16).as<pair>();
  CHECK(static_cast<void*>(p) == memory + 8);
  p->a = 7;
  CHECK(const_buffer(part(8, sizeof(pair))).as<pair>()->a == 7);
  error_code ec = rdma::error::closed;
  CHECK(part(0, sizeof(pair)).as<pair>(ec) != nullptr);
  CHECK_FALSE(ec);
}

TEST_CASE("as fails with wrong_size when the buffer is one byte too small")
{
  error_code ec;
  CHECK(part(0, sizeof(pair) - 1).as<pair>(ec) == nullptr);
  CHECK(ec == rdma::error::wrong_size);
  CHECK(thrown_by([] { (void)part(0, sizeof(pair) - 1).as<pair>(); }) == rdma::error::wrong_size);
  CHECK(const_buffer().as<char>(ec) == nullptr);
  CHECK(ec == rdma::error::wrong_size);
  CHECK(rdma::registered_buffer().as<char>(ec) == nullptr);
  CHECK(rdma::memory_region().as<char>(ec) == nullptr);
  CHECK(ec == rdma::error::wrong_size);
}

TEST_CASE("as fails with misaligned when the address is not aligned for the type")
{
  error_code ec;
  for (const std::size_t offset : {1, 2, 3, 5, 7})
  {
    CHECK(part(offset, 32).as<pair>(ec) == nullptr);
    CHECK(ec == rdma::error::misaligned);
    CHECK(thrown_by([&] { (void)const_buffer(part(offset, 32)).as<pair>(); })
      == rdma::error::misaligned);
    CHECK(part(offset, 32).as_span<pair>(ec).data() == nullptr);
    CHECK(ec == rdma::error::misaligned);
  }
  CHECK(part(2, 32).as<std::uint16_t>(ec) != nullptr);
  CHECK_FALSE(ec);
}

TEST_CASE("as_span covers the whole buffer or fails with wrong_size")
{
  CHECK(part(0, 64).as_span<pair>().size() == 64 / sizeof(pair));
  CHECK(part(0, 0).as_span<pair>().empty());
  CHECK(mutable_buffer().as_span<pair>().empty());
  for (const std::size_t size : {1, 7, 9, 63})
  {
    error_code ec;
    CHECK(part(0, size).as_span<pair>(ec).empty());
    CHECK(ec == rdma::error::wrong_size);
    CHECK(thrown_by([&] { (void)part(0, size).as_span<pair>(); }) == rdma::error::wrong_size);
  }
}

TEST_CASE("elements fails with out_of_range when the elements are not inside the buffer")
{
  const mutable_buffer all = part(0, 62); // seven pairs and six bytes
  CHECK(all.elements<pair>(2, 3).data() == memory + 16);
  CHECK(all.elements<pair>(2, 3).size() == 24);
  CHECK(all.elements<pair>(6).size() == 8);
  CHECK(all.elements<pair>(7, 0).size() == 0);
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{7, 1}, {8, 0}, {0, 8},
         {6, 2}, {SIZE_MAX, 1}, {1, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 8 + 1, 1}})
  {
    CAPTURE(first, count);
    error_code ec;
    CHECK(all.elements<pair>(first, count, ec).size() == 0);
    CHECK(ec == rdma::error::out_of_range);
    CHECK(thrown_by([&, f = first, c = count] { (void)const_buffer(all).elements<pair>(f, c); })
      == rdma::error::out_of_range);
  }
  const mutable_buffer inner = all.slice(8, 24).slice(8);
  CHECK(inner.data() == memory + 16);
  CHECK(inner.size() == 16);
  CHECK(inner.slice(16, 100).size() == 0);
  CHECK(inner.elements<pair>(1).data() == memory + 24);
  CHECK(thrown_by([&] { (void)inner.elements<pair>(2); }) == rdma::error::out_of_range);
}

TEST_CASE("as fails with read_only when the memory was registered as const")
{
  rdma::detail::registration registration;
  registration.read_only = true;
  const mutable_buffer all(memory, sizeof memory, &registration);
  error_code ec;
  CHECK(all.as<pair>(ec) == nullptr);
  CHECK(ec == rdma::error::read_only);
  CHECK(all.slice(8).as_span<pair>(ec).empty());
  CHECK(ec == rdma::error::read_only);
  CHECK(all.slice(8).as<const pair>(ec) != nullptr);
  CHECK_FALSE(ec);
  CHECK(const_buffer(all).as_span<pair>(ec).size() == 8);
  CHECK_FALSE(ec);
}

TEST_CASE("elements of a remote buffer stay inside it and keep keys and rights")
{
  const rdma::remote_buffer all(1000, 62, {1, 2}, rdma::access::remote_read);
  const rdma::remote_buffer third = all.elements<pair>(2);
  CHECK(third.address() == 1016);
  CHECK(third.size() == 8);
  CHECK(third.keys() == all.keys());
  CHECK(third.rights() == rdma::access::remote_read);
  CHECK(all.elements<pair>(0, 7).size() == 56);
  CHECK(third.elements<std::uint32_t>(1).address() == 1020);
  error_code ec;
  CHECK(all.elements<pair>(7, 1, ec).size() == 0);
  CHECK(ec == rdma::error::out_of_range);
  CHECK(all.elements<pair>(UINT64_MAX, 2, ec).size() == 0);
  CHECK(ec == rdma::error::out_of_range);
  CHECK(thrown_by([&] { (void)third.elements<pair>(0, 2); }) == rdma::error::out_of_range);
}
