//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_RECEIVER_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_RECEIVER_HPP

#include "sender.hpp"

#include <exception>
#include <iostream>

namespace bulk_transfer {

/// Receives one file from a connected peer.
class receiver
{
public:
  using clock = std::chrono::steady_clock;

  receiver(std::shared_ptr<connection> peer, std::string output)
    : peer_(std::move(peer))
    , output_(std::move(output))
  {
  }

  asio::awaitable<outcome> run(asio::thread_pool& pool)
  {
    const auto offer = co_await peer_->expect<offer_frame>(connection::peer_silence_max);
    std::cout << "receiving " << offer.file_size << " bytes" << std::endl;
    outcome result;
    std::exception_ptr failure;
    try
    {
      result = co_await receive(pool, offer);
    }
    catch (const std::exception&)
    {
      failure = std::current_exception();
    }
    if (failure)
    {
      co_await send_failure(failure);
      std::rethrow_exception(failure);
    }
    co_return result;
  }

private:
  asio::awaitable<outcome> receive(asio::thread_pool& pool, const offer_frame& offer)
  {
    outcome result;
    result.bytes = offer.file_size;
    part_file output(output_);
    output.content().check_room_for(offer.file_size);
    // The peer may write only here, and only until this function returns.
    const rdma::memory_region ring(peer_->peer().context(), offer.ring_size(),
      rdma::access::local_write | rdma::access::remote_write);
    co_await peer_->send(ring_frame{ring.remote()});

    std::optional<digest_frame> theirs;
    if (offer.whole)
    {
      theirs = co_await peer_->expect<digest_frame>(std::nullopt);
      output.content().write(ring.bytes().first(static_cast<std::size_t>(offer.file_size)), 0);
    }
    else
      result.transfer = co_await store_chunks(output.content(), offer, ring);

    // Reads the file back, so that the checksum covers the stored data and not the memory.
    const auto verification_start = clock::now();
    result.checksum = co_await sha256_aside(pool, output.content(), offer.file_size);
    if (!theirs)
      theirs = co_await peer_->expect<digest_frame>(std::nullopt);
    result.verification = clock::now() - verification_start;
    const bool same = theirs->value == result.checksum;
    if (same)
      output.keep();
    co_await peer_->send(verdict_frame{result.checksum, same});
    if (!same)
      throw std::runtime_error("the copy differs from the data that the sender read (SHA-256 here "
        + text_of(result.checksum) + ", there " + text_of(theirs->value) + "); it was removed");
    co_return result;
  }

  asio::awaitable<seconds> store_chunks(
    const file& output, const offer_frame& offer, const rdma::memory_region& ring)
  {
    const auto start = clock::now();
    progress shown(offer.file_size, false);
    for (std::uint64_t chunk = 0; chunk < offer.chunks(); ++chunk)
    {
      const auto got = co_await peer_->next(connection::peer_silence_max);
      connection::throw_if_failure(*got);
      const std::size_t bytes = offer.bytes_of(chunk);
      if (got->chunk != static_cast<std::uint32_t>(chunk) || got->bytes != bytes)
        throw protocol_error("a chunk arrived out of order");
      const std::size_t offset = chunk % offer.slots * offer.chunk_size;
      output.write(ring.bytes().subspan(offset, bytes), chunk * offer.chunk_size);
      peer_->free_slot();
      shown.update(chunk * offer.chunk_size + bytes);
    }
    shown.finish(offer.file_size);
    co_return clock::now() - start;
  }

  // Sends the reason to the sender's user, if the sender is still connected.
  asio::awaitable<void> send_failure(const std::exception_ptr& failure)
  {
    failure_frame reason;
    try
    {
      std::rethrow_exception(failure);
    }
    catch (const std::exception& thrown)
    {
      reason.text = thrown.what();
    }
    if (!peer_->peer().is_connected())
      co_return;
    try
    {
      co_await peer_->send(reason);
    }
    catch (const rdma::system_error&)
    {
      // It is not connected any more. The first failure is reported.
    }
  }

  std::shared_ptr<connection> peer_;
  std::string output_;
};

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_RECEIVER_HPP
