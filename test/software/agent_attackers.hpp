//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_AGENT_ATTACKERS_HPP
#define BOOST_RDMA_TEST_SOFTWARE_AGENT_ATTACKERS_HPP

#include "agent/message.hpp"
#include "software/agent_fixture.hpp"
#include "verbs/software/queue_pair_number.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

// Peers that send invalid or excessive requests to an agent, and honest ones beside them.

namespace test {

using rdma::detail::agent_channel_event;
using rdma::detail::agent_message;
using rdma::detail::message_type;
using rdma::detail::queue_pair_core;

inline bool is_access_error(const error_code& ec)
{
  return has(feature::exact_statuses) ? ec == rdma::wc_status::remote_access_error
                                      : static_cast<bool>(ec);
}

// A server, an honest client with a lease to protect, and any number of attackers.
struct attacked_fixture : agent_fixture
{
  explicit attacked_fixture(const rdma::lessor_options& quotas = {})
    : agent_fixture(quotas)
    , protected_lease(allocate(64))
  {
    REQUIRE(write(client, protected_text, protected_lease) == error_code());
  }

  // Checks that the honest client's lease is unchanged and that it can allocate more.
  void check_unharmed()
  {
    CHECK(client.is_connected());
    CHECK(server->is_connected());
    CHECK(protected_lease.is_valid());
    CHECK(read(protected_lease) == protected_text);
    CHECK(allocate(16).is_valid());
  }

  static constexpr std::string_view protected_text =
    "sixty-four bytes that nobody but this client may read or write..";
  rdma::remote_memory protected_lease;
};

// An attacker's own connection to the attacked server.
struct attacker
{
  explicit attacker(attacked_fixture& of)
    : f(of)
    , own(of.io, context)
  {
    f.connect(own, far);
  }

  // Returns the error of a write to the target. Another attacker tries to read it as well.
  error_code tries(const rdma::remote_buffer& target)
  {
    const error_code written = f.write(own, std::string(target.size(), 'x'), target);
    attacker other(f);
    error_code ec;
    const std::string text = f.read(other.own, target, ec);
    CHECK(text.empty());
    CHECK(is_access_error(ec));
    return written;
  }

  attacked_fixture& f;
  rdma::context context = make_context();
  rdma::queue_pair own;
  std::optional<rdma::queue_pair> far;
};

// A TCP listener that no agent may connect to.
class bystander
{
public:
  // At this address, where the software device of the largest index would listen that is free.
  explicit bystander(asio::ip::address_v4 at)
    : listener_(io_)
  {
    listener_.open(asio::ip::tcp::v4());
    error_code ec = asio::error::address_in_use;
    for (index_ = rdma::software::index_count; ec && index_ != 0;)
      listener_.bind({at, rdma::software::port_of(--index_ << rdma::software::number_bits)}, ec);
    REQUIRE(ec == error_code());
    listener_.listen();
    listener_.non_blocking(true);
  }

  // Returns the number of a queue pair that would be at this listener.
  [[nodiscard]] std::uint32_t queue_pair_number() const
  {
    return index_ << rdma::software::number_bits | 5;
  }

  // Returns true if somebody has connected.
  [[nodiscard]] bool connected_to()
  {
    error_code ec;
    const asio::ip::tcp::socket found = listener_.accept(ec);
    return !ec;
  }

private:
  asio::io_context io_;
  asio::ip::tcp::acceptor listener_;
  std::uint32_t index_ = 0;
};

// An attacker's own end of the agents' queue pair, which can send arbitrary messages.
class raw_channel final
  : public rdma::detail::agent_attachment
  , public std::enable_shared_from_this<raw_channel>
{
public:
  raw_channel(attacked_fixture& f, const rdma::queue_pair& beside, std::size_t receives)
    : f_(f)
    , context_(beside.context())
    , channel_(f_.io, context_, beside.core()->options_of_sibling())
    , room_(context_.allocate(agent_message::encoded_size * receives))
    , receives_(receives)
  {
  }

  static std::shared_ptr<raw_channel> open(attacker& by, std::size_t receives = 64)
  {
    auto made = std::make_shared<raw_channel>(by.f, by.own, receives);
    made->connect(*by.own.core());
    return made;
  }

  // Sends a description that `change` has changed, and connects nothing.
  template <class Change>
  static std::shared_ptr<raw_channel> pretend(
    attacked_fixture& f, rdma::queue_pair& beside, Change change)
  {
    auto made = std::make_shared<raw_channel>(f, beside, 1);
    made->offer(*beside.core(), change);
    return made;
  }

  // Waits until the peer's device has received it; returns false if that fails.
  bool send(std::span<const std::byte> bytes)
  {
    bytes_record sent;
    channel_.async_send(
      buffer_of(context_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
      sent.handler());
    REQUIRE(run_until(f_.io, [&] { return sent.done(); }));
    return !sent.ec;
  }
  bool send(const agent_message& message) { return send(message.encode()); }

  // Sends without waiting.
  void post(const agent_message& message)
  {
    const auto bytes = message.encode();
    channel_.async_send(
      buffer_of(context_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
      [](const error_code&, std::size_t) {});
  }

  // Sends a message and returns the next answer.
  std::optional<agent_message> ask(const agent_message& message)
  {
    const std::size_t before = answers_.size();
    if (!send(message) || !run_until(f_.io, [&] { return answers_.size() != before || over(); })
      || over())
      return std::nullopt;
    return answers_.back();
  }

  // Returns the received message of this type with this number, from zero.
  agent_message await(message_type type, std::size_t number = 0)
  {
    const auto found = [&]
    {
      std::size_t before = 0;
      return std::find_if(answers_.begin(), answers_.end(),
        [&](const agent_message& each) { return each.type == type && before++ == number; });
    };
    REQUIRE(run_until(f_.io, [&] { return found() != answers_.end(); }));
    return *found();
  }

  [[nodiscard]] bool over()
  {
    const std::lock_guard lock(mutex_);
    return over_;
  }
  [[nodiscard]] bool is_told_over()
  {
    return run_until(f_.io, [&] { return over(); });
  }

  void on_agent_channel(agent_channel_event word, const std::string& text) override
  {
    const std::lock_guard lock(mutex_);
    if (over_)
      return;      // the peer's own offer may come after its refusal
    offer_ = text; // or why it ended
    over_ = word == agent_channel_event::over;
    asio::post(f_.io, [] {}); // wakes up run_until()
  }
  void on_end(const error_code&) noexcept override {}
  void abandon() noexcept override {}

private:
  struct source final : rdma::detail::agent_attachment_source
  {
    std::shared_ptr<rdma::detail::agent_attachment> make(
      const std::shared_ptr<queue_pair_core>&) override
    {
      return agent_channel;
    }
    std::shared_ptr<raw_channel> agent_channel;
  };

  void connect(queue_pair_core& beside)
  {
    offer(beside, [](rdma::endpoint_description&) {});
    REQUIRE(run_until(f_.io, [&] { return !offer().empty() || over(); }));
    INFO("the server's agent says: " << offer());
    REQUIRE_FALSE(over());
    error_code ec;
    beside.connect_sibling(*channel_.core(), rdma::endpoint_description::parse(offer()), ec);
    REQUIRE(ec == error_code());
    for (std::size_t i = 0; i != receives_; ++i)
      receive(i);
  }

  // The queue pair owns its agent_attachment, so the attachment must not own the queue pair:
  // on_end() would have to release it.
  template <class Change>
  void offer(queue_pair_core& beside, Change change)
  {
    source of;
    of.agent_channel = shared_from_this();
    error_code ec;
    REQUIRE(beside.attachment_by(of, ec).get() == this);
    rdma::endpoint_description own = beside.describe_sibling(*channel_.core(), ec);
    REQUIRE(ec == error_code());
    change(own);
    REQUIRE(beside.send_agent_channel(agent_channel_event::offer, own.text()));
  }

  std::string offer()
  {
    const std::lock_guard lock(mutex_);
    return offer_;
  }

  void receive(std::size_t place)
  {
    const auto bytes =
      room_.slice(place * agent_message::encoded_size, agent_message::encoded_size);
    channel_.async_receive(bytes,
      [this, place, bytes, kept = weak_from_this()](const error_code& ec, std::size_t size)
      {
        if (kept.expired() || ec)
          return;
        if (const auto said =
              agent_message::decode({static_cast<const std::byte*>(bytes.data()), size}))
          answers_.push_back(*said);
        receive(place);
      });
  }

  attacked_fixture& f_;
  const rdma::context context_;
  rdma::queue_pair channel_;
  const rdma::registered_buffer room_;
  const std::size_t receives_;
  std::deque<agent_message> answers_;
  std::mutex mutex_;
  std::string offer_;
  bool over_ = false;
};

inline agent_message message_of(message_type type, std::uint32_t id)
{
  agent_message m;
  m.type = type;
  m.id = id;
  switch (type)
  {
  case message_type::allocate:
    m.alignment = 64;
    m.lifetime = agent_message::no_limit;
    m.memory = rdma::remote_buffer(0, 32, {}, rdma::remote_access);
    break;
  case message_type::lend:
    m.memory = rdma::remote_buffer(4096, 32, {7, 7}, rdma::remote_access);
    [[fallthrough]];
  default:
    m.lease = 1;
  }
  return m;
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_AGENT_ATTACKERS_HPP
