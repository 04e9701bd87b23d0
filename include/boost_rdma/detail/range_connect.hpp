//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RANGE_CONNECT_HPP
#define BOOST_RDMA_DETAIL_RANGE_CONNECT_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <utility>

namespace rdma::detail {

template <class Range>
concept endpoint_range = std::ranges::forward_range<const Range>
  && std::convertible_to<std::ranges::range_reference_t<const Range>,
    boost::asio::ip::tcp::endpoint>;

// Connects a stream to the endpoints one after the other, until one accepts it.
template <class Stream, class Range>
class range_connect
{
public:
  range_connect(Stream& stream, const Range& servers)
    : stream_(&stream)
    , servers_(servers)
  {
  }

  template <class Self>
  void operator()(Self& self, error_code ec = boost::asio::error::not_found)
  {
    const bool begins = std::exchange(begins_, false);
    const auto size = static_cast<std::size_t>(std::ranges::distance(servers_));
    if (begins)
    {
      self.reset_cancellation_state(boost::asio::enable_total_cancellation());
      if (size == 0)
        return boost::asio::post(stream_->get_executor(), std::move(self));
    }
    else if (ec && self.cancelled() != boost::asio::cancellation_type::none)
      ec = boost::asio::error::operation_aborted;
    if (!begins && (!ec || ec == boost::asio::error::operation_aborted || next_ == size))
      return self.complete(ec, ec ? boost::asio::ip::tcp::endpoint() : server_);
    server_ = *std::next(std::ranges::begin(servers_), static_cast<std::ptrdiff_t>(next_++));
    const auto server = server_; // before self moves
    stream_->async_connect(server, std::move(self));
  }

private:
  Stream* stream_;
  Range servers_;
  std::size_t next_ = 0;
  boost::asio::ip::tcp::endpoint server_;
  bool begins_ = true;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_RANGE_CONNECT_HPP
