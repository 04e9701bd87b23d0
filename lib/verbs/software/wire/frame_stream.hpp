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

/// The bytes that have arrived through the socket of a link, and the position up to which they have
/// been used.
/**
 * Not thread-safe: the thread that serves the link passes it to the queue pair that the next frame
 * names.
 */
class frame_stream
{
public:
  explicit frame_stream(int socket) noexcept
    : socket_(socket)
  {
  }

  int socket() const noexcept { return socket_; }

  // Bounds on one call, so that one busy link does not delay the others.
  static constexpr unsigned reads_max = 4;
  static constexpr unsigned payload_reads_max = 32;

  /// Begin and end a call. A staging buffer exists during a call, and afterwards only while it
  /// contains bytes. begin() returns false if memory is short.
  bool begin() noexcept;
  void end() noexcept;

  /// Returns the bytes that have been staged and not used.
  std::span<const std::byte> staged() const noexcept
  {
    return {staging_.get() + begin_, end_ - begin_};
  }
  void use(std::size_t size) noexcept
  {
    begin_ += size;
    used_ += size;
  }

  /// Reads behind the staged bytes. Returns false if nothing was read.
  bool read() noexcept;

  /// Returns the staging buffer, which is empty, for the bytes behind a payload that is read
  /// directly into its destination.
  std::byte* behind() const noexcept { return staging_.get(); }

  /// Processes the result of recv(2) or recvmsg(2) for `asked` bytes. The first `direct` of them
  /// are not staged. Returns false if nothing was read.
  bool take(std::ptrdiff_t result, std::size_t asked, std::size_t direct) noexcept;

  /// Returns true if the socket has no more bytes for this call, or the call has read enough. (The
  /// socket is level-triggered.)
  bool dry() const noexcept { return dry_; }

  /// Returns true if the peer has ended the stream, or the connection has failed.
  bool ended() const noexcept { return ended_; }

  // --- the frame whose headers have been used ---

  void begin_payload(std::uint32_t qp, std::uint32_t size, bool skip) noexcept
  {
    qp_ = qp;
    left_ = size;
    skip_ = skip;
  }
  std::uint32_t qp() const noexcept { return qp_; }

  /// Returns the number of payload bytes that are still to come.
  std::uint32_t left() const noexcept { return left_; }
  void use_payload(std::uint32_t size) noexcept
  {
    left_ -= size;
    used_ += size;
  }

  /// Returns the number of bytes that have been used.
  std::uint64_t used() const noexcept { return used_; }

  /// Returns true if the rest of the payload is discarded.
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
  unsigned reads_ = 0;         ///< in this call
  unsigned payload_reads_ = 0; ///< in this call
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_FRAME_STREAM_HPP
