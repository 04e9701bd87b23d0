//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_WIRE_MONITOR_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_WIRE_MONITOR_HPP

#include "rpc/message.hpp"
#include "rpc/message_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace test {

/// Checks the bytes that both sides of a connection write against doc/rpc_protocol.md. Throws
/// std::logic_error. It sees bytes when they are written, which is before the other side sees them.
class wire_monitor
{
public:
  using message = rdma::detail::rpc::message;
  using message_type = rdma::detail::rpc::message_type;
  using part_type = rdma::detail::rpc::exposed_part;

  /// @param streaming Indices of the methods with items.
  wire_monitor(std::size_t content_max, std::set<std::uint16_t> streaming)
    : client_(content_max)
    , server_(content_max)
    , streaming_(std::move(streaming))
  {
  }

  void by_client(std::span<const std::byte> bytes)
  {
    read(client_, bytes, &wire_monitor::take_of_client);
  }
  void by_server(std::span<const std::byte> bytes)
  {
    read(server_, bytes, &wire_monitor::take_of_server);
  }

  /// Everything that was written has arrived, and all calls have ended.
  void check_end() const
  {
    for (const auto& [number, each] : calls_)
    {
      require(each.answered || each.cancelled, "a call has neither answer nor end", number);
      require(each.answered || !each.exposes || each.released,
        "a cancelled call with memory is answered or released", number);
    }
    require(unanswered_.empty(), "all transfers are answered", 0);
  }

private:
  using content_type = std::vector<std::byte>;

  /// Credit of one direction.
  struct credit
  {
    std::uint64_t window = 0;
    std::uint64_t left = 0;
    bool ended = false;
  };

  struct call
  {
    bool answered = false;
    bool cancelled = false;
    bool exposes = false;
    bool released = false;
    bool has_items = false;
    credit to_server;
    credit to_client;
  };

  static void require(bool condition, const char* rule, std::uint32_t number)
  {
    if (!condition)
      throw std::logic_error(std::string(rule) + ", call " + std::to_string(number));
  }

  void read(rdma::detail::rpc::message_reader& by, std::span<const std::byte> bytes,
    void (wire_monitor::*take)(const message&, const content_type&))
  {
    const auto take_one = [&](const message& m, const content_type& content)
    {
      (this->*take)(m, content);
      return true;
    };
    require(by.read(bytes, take_one), "messages have the form of the protocol", 0);
  }

  call& call_of(const message& m)
  {
    const auto found = calls_.find(m.number);
    require(found != calls_.end(), "a message refers to a call that was made", m.number);
    return found->second;
  }

  static void spend(credit& of, const message& m)
  {
    const std::uint64_t cost = std::uint64_t{m.size} + 16;
    require(!of.ended, "no item follows the end of the items", m.number);
    require(cost <= of.left, "an item has its credit", m.number);
    require(cost <= of.window / 2, "an item takes at most half of the first credit", m.number);
    of.left -= cost;
  }

  static void give(credit& of, std::uint32_t bytes, std::uint32_t number)
  {
    if (of.window == 0)
      of.window = bytes;
    of.left += bytes;
    require(of.left <= of.window, "the first credit is the most", number);
  }

  void take_of_client(const message& m, const content_type& content)
  {
    using enum message_type;
    require(std::exchange(client_greeted_, true) != (m.type == hello), "hello is first", m.number);
    require(!next_call_ || ((m.type == call_type || m.type == expose) && m.number == *next_call_),
      "the call follows its trace and its memory", m.number);
    switch (m.type)
    {
    case hello:
      return;
    case message_type::trace:
      require(!exposes_, "the trace is first", m.number);
      next_call_ = m.number;
      return;
    case expose:
      require(rdma::detail::rpc::decode_ranges(content).has_value(), "ranges", m.number);
      require(!std::exchange(exposes_, true), "one message has all ranges", m.number);
      next_call_ = m.number;
      return;
    case call_type:
    {
      const auto used = calls_.find(m.number);
      require(used == calls_.end() || used->second.answered || used->second.cancelled,
        "a number is used again when its call has ended", m.number);
      struct call made;
      made.exposes = std::exchange(exposes_, false);
      next_call_.reset();
      made.has_items = streaming_.contains(m.selector);
      if (made.has_items)
        give(made.to_client,
          rdma::detail::rpc::decode_first_credit(
            std::span(content).last<rdma::detail::rpc::first_credit_size>()),
          m.number);
      calls_.insert_or_assign(m.number, made);
      return;
    }
    case cancel:
      require(!std::exchange(call_of(m).cancelled, true), "a call is cancelled once", m.number);
      return;
    case message_type::part:
      require(!unanswered_.empty() && unanswered_.front() == m.number,
        "parts answer transfers in their order", m.number);
      unanswered_.pop_front();
      return;
    case item:
      require(!call_of(m).cancelled, "no item follows a cancelled call", m.number);
      return spend(call_of(m).to_server, m);
    case credit_type:
      require(call_of(m).has_items, "credit is for a call with items", m.number);
      return give(call_of(m).to_client, m.detail, m.number);
    case end_of_items:
      require(call_of(m).has_items && !std::exchange(call_of(m).to_server.ended, true),
        "items end once", m.number);
      return;
    default:
      require(false, "a client sends messages of clients", m.number);
    }
  }

  void take_of_server(const message& m, const content_type& content)
  {
    using enum message_type;
    require(std::exchange(server_greeted_, true) != (m.type == hello), "hello is first", m.number);
    switch (m.type)
    {
    case hello:
      return;
    case goodbye:
      require(!std::exchange(leaving_, true), "goodbye is sent once", 0);
      return;
    case reply:
    case failure:
      require(!std::exchange(call_of(m).answered, true), "a call is answered once", m.number);
      return;
    case released:
    {
      struct call& of = call_of(m);
      require(
        of.cancelled && of.exposes && !of.answered, "only cancelled calls are released", m.number);
      require(!std::exchange(of.released, true), "memory is released once", m.number);
      return;
    }
    case pull:
    case push:
    {
      const struct call& of = call_of(m);
      require(of.exposes && !of.answered && !of.released, "transfers precede the answer", m.number);
      const part_type wanted =
        rdma::detail::rpc::decode_part(std::span(content).first<part_type::encoded_size>());
      require(wanted.size != 0 && wanted.size <= part_type::size_max, "a part has bytes", m.number);
      unanswered_.push_back(m.detail);
      require(unanswered_.size() <= part_type::most, "transfers are limited", m.number);
      return;
    }
    case item:
      require(!call_of(m).answered, "items precede the answer", m.number);
      return spend(call_of(m).to_client, m);
    case credit_type:
      require(call_of(m).has_items && !call_of(m).answered, "credit is for items", m.number);
      return give(call_of(m).to_server, m.detail, m.number);
    default:
      require(false, "a server sends messages of servers", m.number);
    }
  }

  static constexpr auto call_type = message_type::call;
  static constexpr auto credit_type = message_type::credit;

  rdma::detail::rpc::message_reader client_;
  rdma::detail::rpc::message_reader server_;
  const std::set<std::uint16_t> streaming_;
  std::map<std::uint32_t, call> calls_;
  std::deque<std::uint32_t> unanswered_; // transfers
  std::optional<std::uint32_t> next_call_;
  bool exposes_ = false;
  bool client_greeted_ = false;
  bool server_greeted_ = false;
  bool leaving_ = false;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_WIRE_MONITOR_HPP
