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

/// Memory of the program's own that register_buffer() takes: std::span, std::vector, std::array,
/// std::string, T[N].
/**
 * Contiguous, of objects that may be copied byte by byte, and not a temporary: the memory is to
 * outlive the region.
 */
template <class Range>
concept registrable_range = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range>
  && std::ranges::borrowed_range<Range>
  && std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>
  && !std::convertible_to<Range, boost::asio::const_buffer>;

/// Registers memory of the program's own, where it lies.
/**
 * The memory must stay, where and as it is (a vector must not grow), for as long as the region and
 * what uses it. It need not be aligned. Nothing is reachable from remote unless `rights` say so;
 * neighbours in the same page are not.
 *
 * A region registered from const memory is for sending, for writing from and, with
 * access::remote_read, for peers to read. as<T>() gives const objects only, and receives and reads
 * into it are refused with error::read_only.
 *
 * @param domain A protection_domain or a context.
 * @param memory boost::asio::mutable_buffer, boost::asio::const_buffer, or a registrable_range.
 * @param rights access::local_read and access::remote_read are all that const memory can have.
 * @param ec error::empty_buffer; error::bad_access; what ibv_reg_mr said: EFAULT for memory that is
 * not mapped, cannot be written to although the rights ask for that, or is a file's that the device
 * does not take; ENOMEM beyond the limit of locked memory. likely_cause() says more.
 *
 * @par Thread safety
 * Safe.
 */
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::mutable_buffer& memory, access rights, error_code& ec);

/// As above; throws system_error.
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::mutable_buffer& memory, access rights = access::local_write);

/// As above, for const memory.
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::const_buffer& memory, access rights, error_code& ec);

/// As above; throws system_error.
[[nodiscard]] memory_region register_buffer(const protection_domain& domain,
  const boost::asio::const_buffer& memory, access rights = access::local_read);

namespace detail {

// A range's bytes, const if they are.
template <registrable_range Range>
auto plain_bytes_of(Range&& range)
{
  using element = std::remove_reference_t<std::ranges::range_reference_t<Range>>;
  using buffer = std::conditional_t<std::is_const_v<element>, boost::asio::const_buffer,
    boost::asio::mutable_buffer>;
  return buffer(std::ranges::data(range), std::ranges::size(range) * sizeof(element));
}

} // namespace detail

/// As above, for a range of objects.
template <registrable_range Range>
[[nodiscard]] memory_region register_buffer(
  const protection_domain& domain, Range&& range, access rights, error_code& ec)
{
  return register_buffer(domain, detail::plain_bytes_of(std::forward<Range>(range)), rights, ec);
}

/// As above; throws system_error.
template <registrable_range Range>
[[nodiscard]] memory_region register_buffer(
  const protection_domain& domain, Range&& range, access rights)
{
  return register_buffer(domain, detail::plain_bytes_of(std::forward<Range>(range)), rights);
}

/// As above, with access::local_write, or access::local_read for const objects.
template <registrable_range Range>
[[nodiscard]] memory_region register_buffer(const protection_domain& domain, Range&& range)
{
  return register_buffer(domain, detail::plain_bytes_of(std::forward<Range>(range)));
}

} // namespace rdma

#endif // BOOST_RDMA_REGISTER_BUFFER_HPP
