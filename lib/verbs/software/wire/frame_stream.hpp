//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_FRAME_STREAM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_FRAME_STREAM_HPP

#include "verbs/software/wire/staging.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma::software::wire {

/// The bytes that have come through the socket of a link, and how far they have been used.
/** One thread at a time: the one that serves the link, which lends it to the queue pair whose frame
 * comes next. */
class frame_stream
{
public:
  explicit frame_stream(int socket) noexcept
    : socket_(socket)
  {
  }

  int socket() const noexcept { return socket_; }

  // Bounds on one call, so that one busy link does not keep a poller from the others.
  static constexpr unsigned reads_max = 4;
  static constexpr unsigned payload_reads_max = 32;

  /// Begins and ends a call. There is a staging buffer in between, and afterwards only while it has
  /// bytes. False when memory is short.
  bool begin() noexcept;
  void end() noexcept;

  /// The bytes that have been staged and not used.
  std::span<const std::byte> staged() const noexcept
  {
    return {staging_.get() + begin_, end_ - begin_};
  }
  void use(std::size_t size) noexcept
  {
    begin_ += size;
    used_ += size;
  }

  /// Reads behind the staged bytes. Returns false if there is nothing to read, or no more.
  bool read() noexcept;

  /// The rest of the staging buffer, which is empty, for bytes behind a payload that is read
  /// straight to its place.
  std::byte* behind() const noexcept { return staging_.get(); }

  /// Takes over the result of recv(2) or recvmsg(2): `asked` bytes were wanted. The first `direct`
  /// of them are not staged. Returns false if nothing was read.
  bool take(std::ptrdiff_t result, std::size_t asked, std::size_t direct) noexcept;

  /// The socket has nothing more for this call, or the call has read enough. (The socket is
  /// level-triggered.)
  bool dry() const noexcept { return dry_; }

  /// The peer has ended the stream, or the connection has failed.
  bool ended() const noexcept { return ended_; }

  // --- the frame whose headers have been used ---

  void begin_payload(std::uint32_t qp, std::uint32_t size, bool skip) noexcept
  {
    qp_ = qp;
    left_ = size;
    skip_ = skip;
  }
  std::uint32_t qp() const noexcept { return qp_; }

  /// Bytes of its payload that are still to come.
  std::uint32_t left() const noexcept { return left_; }
  void use_payload(std::uint32_t size) noexcept
  {
    left_ -= size;
    used_ += size;
  }

  /// Counts the bytes that have been used.
  std::uint64_t used() const noexcept { return used_; }

  /// Nobody wants the rest of the payload.
  bool skips() const noexcept { return skip_; }
  void skip() noexcept { skip_ = true; }

private:
  const int socket_;
  staging staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool dry_ = false;
  bool ended_ = false;
  bool skip_ = false;
  std::uint32_t qp_ = 0;
  std::uint32_t left_ = 0;
  std::uint64_t used_ = 0;
  unsigned reads_ = 0;         ///< of this call
  unsigned payload_reads_ = 0; ///< likewise
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_FRAME_STREAM_HPP
