//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_SENDER_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_SENDER_HPP

#include "connection.hpp"
#include "file.hpp"
#include "progress.hpp"

#include <boost_rdma/memory_region.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>

namespace bulk_transfer {

/// The result on both sides.
struct outcome
{
  std::uint64_t bytes = 0;
  seconds transfer{}; // unknown to the receiver of a whole file
  seconds verification{};
  digest checksum{};
};

/// Runs in another thread, so that the io_context continues to process signals and messages.
inline asio::awaitable<digest> sha256_aside(
  asio::thread_pool& pool, const file& content, std::uint64_t size)
{
  return asio::co_spawn(
    pool, [&content, size]() -> asio::awaitable<digest> { co_return sha256(content, size); },
    asio::use_awaitable);
}

/// Sends the content of a file to a connected peer.
class sender
{
public:
  using clock = std::chrono::steady_clock;

  static constexpr int measured_passes = 8; // of a whole file

  /// `depth`: the number of writes in flight.
  sender(std::shared_ptr<connection> peer, const file& input, const offer_frame& offer,
    std::uint32_t depth)
    : peer_(std::move(peer))
    , input_(input)
    , offer_(offer)
    , depth_(depth)
  {
  }

  asio::awaitable<outcome> run(asio::thread_pool& pool)
  {
    outcome result;
    result.bytes = offer_.file_size;
    co_await peer_->send(offer_);
    ring_ = (co_await peer_->expect<ring_frame>(connection::peer_silence_max)).memory;
    if (ring_.size() < offer_.ring_size())
      throw protocol_error("its memory is smaller than agreed");

    memory_ = rdma::memory_region(peer_->peer().context(), offer_.ring_size());
    if (offer_.whole)
      result.transfer = co_await write_whole();
    else
      result.transfer = co_await send_chunks();

    const auto verification_start = clock::now();
    result.checksum = co_await sha256_aside(pool, input_, offer_.file_size);
    co_await peer_->send(digest_frame{result.checksum});
    // No time limit: reading back a large file takes long. The end of the peer is noticed anyway.
    const auto verdict = co_await peer_->expect<verdict_frame>(std::nullopt);
    result.verification = clock::now() - verification_start;
    if (verdict.value != result.checksum || !verdict.kept)
      throw std::runtime_error("the copy differs from the data that was read (SHA-256 here "
        + text_of(result.checksum) + ", there " + text_of(verdict.value) + "): " + input_.path()
        + " changed in the meantime, or data was damaged in transit");
    co_return result;
  }

  /// The file in memory, after a transfer of the whole.
  [[nodiscard]] std::span<const std::byte> content() const
  {
    return memory_.bytes().first(static_cast<std::size_t>(offer_.file_size));
  }

private:
  // Returns the average time of some transfers, after one that maps the memory.
  asio::awaitable<seconds> write_whole()
  {
    input_.read(memory_.bytes().first(static_cast<std::size_t>(offer_.file_size)), 0);
    auto start = clock::now();
    for (int pass = 0; pass <= measured_passes; ++pass)
    {
      if (pass == 1)
        start = clock::now();
      const std::uint64_t written_before = peer_->written();
      for (std::uint64_t chunk = 0;;)
      {
        const std::uint64_t written = peer_->written() - written_before;
        if (written == offer_.chunks())
          break;
        if (chunk < offer_.chunks() && chunk - written < depth_)
        {
          const std::size_t offset = chunk * offer_.chunk_size;
          const rdma::mutable_buffer from = memory_.slice(offset, offer_.bytes_of(chunk));
          peer_->write_chunk(from, ring_.slice(offset, from.size()), std::nullopt);
          ++chunk;
        }
        else if (const auto got = co_await peer_->next(connection::peer_silence_max))
        {
          connection::throw_if_failure(*got);
          throw protocol_error("a message arrived out of order");
        }
      }
    }
    co_return seconds(clock::now() - start) / measured_passes;
  }

  // A slot is reused when the receiver has stored its previous chunk, and its local buffer when the
  // device has completed the write. Reading continues while other chunks are in flight.
  asio::awaitable<seconds> send_chunks()
  {
    progress shown(offer_.file_size, true);
    const auto start = clock::now();
    const std::uint64_t chunks = offer_.chunks();
    std::uint64_t stored = 0;
    for (std::uint64_t chunk = 0; stored < chunks || peer_->written() < chunks;)
    {
      if (chunk < chunks && chunk - std::min(stored, peer_->written()) < depth_)
      {
        const std::size_t offset = chunk % offer_.slots * offer_.chunk_size;
        const rdma::mutable_buffer slot = memory_.slice(offset, offer_.bytes_of(chunk));
        input_.read(memory_.bytes().subspan(offset, slot.size()), chunk * offer_.chunk_size);
        peer_->write_chunk(
          slot, ring_.slice(offset, slot.size()), static_cast<std::uint32_t>(chunk));
        ++chunk;
        continue;
      }
      if (const auto got = co_await peer_->next(connection::peer_silence_max))
      {
        connection::throw_if_failure(*got);
        if (got->content || got->chunk || stored == chunk)
          throw protocol_error("a message arrived out of order");
        ++stored;
        shown.update(std::min(stored * offer_.chunk_size, offer_.file_size));
      }
    }
    shown.finish(offer_.file_size);
    co_return clock::now() - start;
  }

  std::shared_ptr<connection> peer_;
  const file& input_;
  const offer_frame offer_;
  const std::uint32_t depth_;
  rdma::remote_buffer ring_;
  rdma::memory_region memory_;
};

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_SENDER_HPP
