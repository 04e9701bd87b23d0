//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_COMPARISON_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_COMPARISON_HPP

#include "progress.hpp"

#include <boost_rdma/transport_choice.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace bulk_transfer {

/// The times for the same bytes without RDMA, on this host.
struct comparison
{
  seconds by_tcp{};
  seconds by_memcpy{};
};

/// Measures as sender::write_whole() does.
template <class Pass>
seconds time_of_one_pass(int passes, Pass pass)
{
  using clock = std::chrono::steady_clock;
  pass();
  const auto start = clock::now();
  for (int i = 0; i < passes; ++i)
    pass();
  return seconds(clock::now() - start) / passes;
}

inline comparison compare(std::span<const std::byte> content, int passes)
{
  namespace asio = boost::asio;
  using asio::ip::tcp;

  comparison result;
  std::vector<std::byte> copy(content.size());
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  tcp::socket outgoing(io);
  outgoing.connect(acceptor.local_endpoint());
  std::future<void> writing; // destroyed after `incoming`, whose end ends the writes
  tcp::socket incoming = acceptor.accept();
  writing = std::async(std::launch::async,
    [&]
    {
      for (int i = 0; i <= passes; ++i)
        asio::write(outgoing, asio::buffer(content.data(), content.size()));
    });
  result.by_tcp =
    time_of_one_pass(passes, [&] { asio::read(incoming, asio::buffer(copy.data(), copy.size())); });
  writing.get();
  if (!std::ranges::equal(copy, content))
    throw std::runtime_error("plain TCP delivered other bytes");

  result.by_memcpy =
    time_of_one_pass(passes, [&] { std::memcpy(copy.data(), content.data(), content.size()); });
  return result;
}

/// The reason why the transfer was not faster.
inline std::string limit_of(const rdma::transport_choice& transport, std::uint64_t bytes)
{
  if (bytes < 1'000'000)
    return "latency: the file is too small for a meaningful rate";
  switch (transport.wire)
  {
  case rdma::wire::shared_memory:
    return "memory bandwidth: shared memory copies each byte once, as memcpy does";
  case rdma::wire::tcp:
    return "TCP of the kernel, which carries the software device's data between hosts";
  default:
    return "the NIC " + transport.device + " with its link and PCIe slot";
  }
}

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_COMPARISON_HPP
