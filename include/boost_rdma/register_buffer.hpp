//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_REGISTER_BUFFER_HPP
#define BOOST_RDMA_REGISTER_BUFFER_HPP

#include <boost_rdma/memory_region.hpp>

#include <boost/asio/buffer.hpp>

#include <concepts>
#include <ranges>
#include <type_traits>
#include <utility>

namespace rdma {

/// Memory of the program that register_buffer() accepts: std::span, std::vector, std::array,
/// std::string, T[N].
/**
 * It is contiguous, contains trivially copyable objects, and is not a temporary, because the memory
 * must outlive the region.
 */
template <class Range>
concept registrable_range = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range>
  && std::ranges::borrowed_range<Range>
  && std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>
  && !std::convertible_to<Range, boost::asio::const_buffer>;

/// Registers memory that the program owns, without copying it.
/**
 * The memory must remain valid and in place as long as the region and operations that use it exist
 * (a vector must not grow). It need not be aligned. Peers can access only this memory, not its
 * neighbours in the same page, and only with the remote_ rights in `rights`.
 *
 * A region of const memory can be the source of sends and writes and, with access::remote_read, of
 * reads by peers. as<T>() returns only const objects. Receives and reads into it fail with
 * error::read_only.
 *
 * @param domain A protection_domain or a context.
 * @param memory boost::asio::mutable_buffer, boost::asio::const_buffer, or a registrable_range.
 * @param rights Access rights. Const memory can have access::local_read and access::remote_read
 * only.
 * @param ec Set to indicate the error, if any (likely_cause() adds details):
 * @li error::empty_buffer: the memory has no bytes.
 * @li error::bad_access: the rights contradict each other, or do not suit const memory.
 * @li EFAULT: the memory is not mapped, cannot be written to although the rights require it, or is
 *     a file mapping that the device does not support.
 * @li ENOMEM: registering would exceed the limit of locked memory.
 * @li another error of ibv_reg_mr.
 *
 * @par Thread safety
 * Safe.
 */
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::mutable_buffer& memory, access rights, error_code& ec);

/// Registers memory that the program owns; throws system_error.
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::mutable_buffer& memory, access rights = access::local_write);

/// Registers const memory that the program owns.
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::const_buffer& memory, access rights, error_code& ec);

/// Registers const memory that the program owns; throws system_error.
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::const_buffer& memory, access rights = access::local_read);

namespace detail {

// Returns the bytes of a range; const if its elements are.
template <registrable_range Range>
auto plain_bytes_of(Range&& range)
{
  using element = std::remove_reference_t<std::ranges::range_reference_t<Range>>;
  using buffer = std::conditional_t<std::is_const_v<element>, boost::asio::const_buffer,
    boost::asio::mutable_buffer>;
  return buffer(std::ranges::data(range), std::ranges::size(range) * sizeof(element));
}

} // namespace detail

/// Registers a range of objects that the program owns.
template <registrable_range Range>
[[nodiscard]] memory_region register_buffer(
  const protection_domain& domain, Range&& range, access rights, error_code& ec)
{
  return register_buffer(domain, detail::plain_bytes_of(std::forward<Range>(range)), rights, ec);
}

/// Registers a range of objects that the program owns; throws system_error.
template <registrable_range Range>
[[nodiscard]] memory_region register_buffer(
  const protection_domain& domain, Range&& range, access rights)
{
  return register_buffer(domain, detail::plain_bytes_of(std::forward<Range>(range)), rights);
}

/// Registers a range of objects that the program owns, with access::local_write, or
/// access::local_read if they are const. Throws system_error.
template <registrable_range Range>
[[nodiscard]] memory_region register_buffer(const protection_domain& domain, Range&& range)
{
  return register_buffer(domain, detail::plain_bytes_of(std::forward<Range>(range)));
}

} // namespace rdma

#endif // BOOST_RDMA_REGISTER_BUFFER_HPP
