//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_HOSTILE_PEER_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_HOSTILE_PEER_HPP

#include "rpc/message.hpp"
#include "rpc/message_reader.hpp"
#include "unit/rpc_simulated_stream.hpp"
#include "unit/rpc_simulated_world.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace test {

/// A client or a server that sends valid messages in any order, and some that are not valid.
class hostile_peer
{
public:
  using message = rdma::detail::rpc::message;
  using message_type = rdma::detail::rpc::message_type;
  using part_type = rdma::detail::rpc::exposed_part;

  hostile_peer(simulated_world& world, std::shared_ptr<simulated_stream> stream, bool is_server)
    : world_(world)
    , stream_(std::move(stream))
    , is_server_(is_server)
    , nonsense_(world.one_in(2) ? 1'000'000 : 100)
    , errors_(world.one_in(2) ? 1'000'000 : 30)
  {
    using namespace rdma::detail::rpc;
    message m = make(message_type::hello, 0);
    m.selector = message::version;
    const std::size_t at = begin_message(out_, m);
    if (is_server)
      add_methods<simulated::value, simulated::coroutine, simulated::deferred, simulated::bulk,
        simulated::items>();
    end_message(out_, at);
  }

  /// Sends something. Returns false if the stream does not take it.
  bool speak()
  {
    if (out_.empty())
    {
      if (world_.one_in(nonsense_))
        add_nonsense();
      else if (is_server_)
        speak_as_server();
      else
        speak_as_client();
    }
    rdma::error_code ec;
    const std::size_t size =
      stream_->write_some(rdma::detail::stream_core::sources(asio::buffer(out_)), false, ec);
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(size));
    return size != 0;
  }

  /// Reads what has arrived. It must have the form of the protocol.
  bool listen()
  {
    std::size_t size = 0;
    for (const asio::const_buffer& each : stream_->peek())
    {
      std::span<const std::byte> bytes(static_cast<const std::byte*>(each.data()), each.size());
      size += each.size();
      const bool valid = reader_.read(bytes,
        [this](const message& m, const std::vector<std::byte>& content)
        {
          learn(m, content);
          return true;
        });
      world_.expect(valid, "a side sends malformed bytes");
    }
    stream_->consume(size);
    return size != 0;
  }

  std::uint64_t calls_max = UINT64_MAX; ///< of the client, that are not answered

private:
  struct call
  {
    std::uint16_t method = 0;
    std::uint64_t credit = 0; // to send items
    std::uint64_t given = 0;  // for items of the other side
    bool used_again = false;
    bool ended = false;
  };

  static message make(message_type type, std::uint32_t number)
  {
    message m;
    m.type = type;
    m.number = number;
    return m;
  }

  template <class... Methods>
  void add_methods()
  {
    (rdma::detail::rpc::append_method(out_, rdma::rpc::detail::description_of<Methods>), ...);
  }

  void add(const message& what, std::span<const std::byte> content = {})
  {
    const std::size_t at = rdma::detail::rpc::begin_message(out_, what);
    out_.insert(out_.end(), content.begin(), content.end());
    rdma::detail::rpc::end_message(out_, at);
  }

  [[nodiscard]] std::vector<std::byte> bytes(std::size_t size)
  {
    return std::vector(size, static_cast<std::byte>(world_.random() & 0xff));
  }

  /// The bytes of a request, a reply or an item.
  [[nodiscard]] std::vector<std::byte> value()
  {
    if (world_.one_in(20))
      return bytes(world_.any(0, 100));
    const auto words = simulated::item_of(++id_, 0);
    const auto all = std::as_bytes(std::span(words));
    return {all.begin(), all.end()};
  }

  void add_nonsense()
  {
    if (world_.one_in(2))
    {
      const message m = make(static_cast<message_type>(world_.any(1, 15)), any_number());
      if (m.type == message_type::reply || m.type == message_type::failure)
        answered(m.number); // it may be well-formed
      return add(m, bytes(world_.any(0, 30)));
    }
    std::vector<std::byte> some(world_.any(1, 40));
    for (std::byte& each : some)
      each = world_.random.byte();
    out_.insert(out_.end(), some.begin(), some.end());
  }

  /// Returns the number of a call, or one that is not used.
  [[nodiscard]] std::uint32_t any_number()
  {
    if (calls_.empty() || world_.one_in(10))
      return static_cast<std::uint32_t>(world_.any(0, 10));
    // One of the last calls, most of which go on.
    const std::size_t among =
      world_.one_in(4) ? calls_.size() : std::min<std::size_t>(calls_.size(), 6);
    return std::prev(calls_.end(), 1 + static_cast<std::ptrdiff_t>(world_.random() % among))->first;
  }

  void speak_as_client()
  {
    using enum message_type;
    switch (world_.random() % 10)
    {
    case 0:
    case 1:
    case 2:
      return add_call();
    case 3:
      return add(make(cancel, any_number()));
    case 4:
    case 5:
      return add_part();
    case 6:
    case 7:
      return add_item();
    case 8:
      return add_credit();
    default:
      if (const std::uint32_t number = streaming_call(); number != 0 || world_.one_in(errors_))
      {
        ended_[number] = calls_[number].ended = true;
        add(make(end_of_items, number));
      }
    }
  }

  void add_call()
  {
    using namespace rdma::detail::rpc;
    const bool again = world_.one_in(errors_);
    message m = make(message_type::call, again ? any_number() : ++number_);
    m.selector = static_cast<std::uint16_t>(world_.any(0, world_.one_in(errors_) ? 9 : 4));
    m.detail = world_.one_in(4) ? 1 : 0;
    // Also with the next number if an earlier call has used it: then the server refuses one of
    // them.
    const bool used = calls_.contains(m.number);
    struct call& made = calls_[m.number];
    made = {m.selector, 0, 0, used, false};
    if (m.selector == 3)
    {
      const std::size_t at = begin_message(out_, make(message_type::expose, m.number));
      for (std::size_t i = world_.any(1, 3); i != 0; --i)
      {
        exposed_range range;
        range.form = exposed_range::form_type::message;
        range.rights = world_.one_in(2) ? rdma::access::remote_read : rdma::access::remote_write;
        range.size = world_.any(1, world_.one_in(10) ? 600'000 : 3000);
        append_range(out_, range, {});
      }
      end_message(out_, at);
    }
    auto content = value();
    if (m.selector == simulated::items_index)
    {
      made.given = world_.any(0, 3000);
      append_first_credit(content, static_cast<std::uint32_t>(made.given));
    }
    add(m, content);
  }

  void add_part()
  {
    if (transfers_.empty() && !world_.one_in(errors_))
      return;
    message m = make(message_type::part, static_cast<std::uint32_t>(world_.any(0, 50)));
    std::size_t size = 0;
    if (!transfers_.empty())
    {
      std::tie(m.number, size) = transfers_.front();
      transfers_.pop_front();
    }
    m.selector = world_.one_in(5) ? 1 : 0;
    if (m.selector == 1)
      size = 0;
    add(m, bytes(world_.one_in(errors_) ? world_.any(0, 20) : size));
  }

  [[nodiscard]] std::uint32_t streaming_call()
  {
    for (int i = 0; i != 5; ++i)
      if (const auto found = calls_.find(any_number()); found != calls_.end()
          && found->second.method == simulated::items_index && !found->second.ended
          && !ended_.contains(found->first))
        return found->first;
    return 0;
  }

  void add_item()
  {
    const std::uint32_t number = streaming_call();
    const auto content = value();
    std::uint64_t& credit = calls_[number].credit;
    if (number == 0 || (credit < content.size() + 16 && !world_.one_in(errors_)))
      return;
    credit -= std::min<std::uint64_t>(credit, content.size() + 16);
    add(make(message_type::item, number), content);
  }

  void add_credit()
  {
    const std::uint32_t number = streaming_call();
    if (number == 0)
      return;
    message m = make(message_type::credit, number);
    m.detail = world_.one_in(errors_) ? UINT32_MAX : static_cast<std::uint32_t>(world_.any(1, 999));
    calls_[number].given += m.detail;
    add(m);
  }

  void speak_as_server()
  {
    using enum message_type;
    const std::uint32_t number = any_number();
    switch (world_.random() % 12)
    {
    case 0:
    case 1:
    case 2:
      answered(number);
      return add(make(reply, number), value());
    case 3:
    {
      message m = make(failure, number);
      m.selector = static_cast<std::uint16_t>(world_.any(1, 4));
      m.detail = static_cast<std::uint32_t>(world_.any(1, 80));
      answered(number);
      return add(m);
    }
    case 4:
      return add(make(released, number));
    case 5:
    case 6:
    case 7:
      return add_transfer(number);
    case 8:
    case 9:
      return add_item();
    case 10:
      return add_credit();
    default:
      if (world_.one_in(50))
        add(make(goodbye, 0));
    }
  }

  void add_transfer(std::uint32_t number)
  {
    const bool pulls = world_.one_in(2);
    message m = make(pulls ? message_type::pull : message_type::push, number);
    m.selector = static_cast<std::uint16_t>(world_.any(0, 3));
    m.detail = ++number_;
    const auto size =
      static_cast<std::uint32_t>(world_.one_in(10) ? world_.random() : world_.any(1, 3000));
    std::vector<std::byte> content;
    rdma::detail::rpc::append_part(content,
      {world_.one_in(10) ? world_.random() * 0x1'0000'0001ULL : world_.any(0, 2000), size});
    if (!pulls)
    {
      const auto pushed = bytes(world_.one_in(10) ? 1 : 1 + (size - 1) % 4000);
      content.insert(content.end(), pushed.begin(), pushed.end());
    }
    add(m, content);
  }

  void answered(std::uint32_t number)
  {
    if (const auto found = calls_.find(number); found != calls_.end() && !found->second.ended)
    {
      found->second.ended = true;
      --open_;
    }
  }

  void learn(const message& m, const std::vector<std::byte>& content)
  {
    using enum message_type;
    const auto found = calls_.find(m.number);
    switch (m.type)
    {
    case message_type::call:
      world_.expect(found == calls_.end(), "a client uses a number again");
      calls_[m.number].method = m.selector;
      world_.expect(++open_ <= calls_max, "more calls are with the server than permitted");
      if (m.selector == simulated::items_index)
        calls_[m.number].credit = rdma::detail::rpc::decode_first_credit(
          std::span(content).last<rdma::detail::rpc::first_credit_size>());
      return;
    case cancel:
      world_.expect(found != calls_.end(), "a client cancels a call that it has made");
      return answered(m.number);
    case pull:
      transfers_.emplace_back(m.detail,
        rdma::detail::rpc::decode_part(std::span(content).first<part_type::encoded_size>()).size);
      break;
    case push:
      transfers_.emplace_back(m.detail, 0);
      break;
    case credit:
      if (found != calls_.end())
        found->second.credit += m.detail;
      return;
    case item:
      if (found == calls_.end() || found->second.used_again)
        return;
      world_.expect(content.size() + 16 <= found->second.given, "an item has its credit");
      found->second.given -= std::min<std::uint64_t>(found->second.given, content.size() + 16);
      return;
    default:
      return;
    }
    world_.expect(transfers_.size() <= part_type::most, "transfers are limited");
  }

  simulated_world& world_;
  const std::shared_ptr<simulated_stream> stream_;
  const bool is_server_;
  const unsigned nonsense_; // one of so many messages
  const unsigned errors_;   // likewise
  rdma::detail::rpc::message_reader reader_{message::size_max};
  std::vector<std::byte> out_;
  std::map<std::uint32_t, call> calls_;                         // by number
  std::map<std::uint32_t, bool> ended_;                         // their items
  std::deque<std::pair<std::uint32_t, std::size_t>> transfers_; // number and bytes of an answer
  std::uint64_t id_ = 0;
  std::uint32_t number_ = 0;
  std::uint64_t open_ = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_HOSTILE_PEER_HPP
