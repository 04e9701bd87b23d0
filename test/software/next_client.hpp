//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_NEXT_CLIENT_HPP
#define BOOST_RDMA_TEST_SOFTWARE_NEXT_CLIENT_HPP

#include "common/rdma_fixture.hpp"

#include <boost/asio/buffer.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <utility>

namespace test {

/// Connects a client to an acceptor after rounds with faults, and receives its message.
template <class Fixture, class Record>
class next_client
{
public:
  /// `connected` is what the client's connect_to() fills.
  next_client(Fixture& f, const Record& connected)
    : f_(f)
    , connected_(connected)
  {
  }

  template <class Connect>
  [[nodiscard]] bool is_served(Connect connect_to)
  {
    accept();
    rdma::queue_pair client(f_.io, f_.client_context);
    connect_to(client);
    if (!run_until(f_.io, [&] { return connected_.done(); }) || connected_.ec)
      return false;
    bytes_record sent;
    client.async_send(buffer_of(f_.client_context, "hello"), sent.handler());
    const bool received = run_until(f_.io, [&] { return received_; });
    f_.acceptor.cancel();
    accepted_.clear();
    client.close();
    return run_until(f_.io, [&] { return !accepts_ && receives_ == 0 && sent.done(); }) && received;
  }

private:
  // The first ones may be clients that could not finish.
  void accept()
  {
    accepts_ = true;
    f_.acceptor.async_accept(
      [this](error_code ec, rdma::queue_pair made)
      {
        accepts_ = false;
        if (ec || received_)
          return;
        accepted_.push_back(std::move(made));
        ++receives_;
        accepted_.back().async_receive(asio::buffer(room_),
          [this](error_code failed, std::size_t size)
          {
            --receives_;
            received_ = received_ || (!failed && size != 0);
          });
        accept();
      });
  }

  Fixture& f_;
  const Record& connected_;
  std::deque<rdma::queue_pair> accepted_;
  std::array<std::byte, 64> room_{};
  bool accepts_ = false;
  std::size_t receives_ = 0;
  bool received_ = false;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_NEXT_CLIENT_HPP
