//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/require.hpp"
#include "unit/agent_simulated_program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>

// Fuzzes an agent: the input decides what the program does, which messages the peer sends and when,
// and when time passes. The messages usually fit to what the program has asked for or has granted.

namespace test::agent_simulation {
namespace {

/// The attacker's end of the channel.
class peer final : public side
{
public:
  using side::side;

  void on_arrived() override { channel_.give_back(channel_.take().receive); }
};

class attacked final : public program
{
public:
  using program::program;

  void attack()
  {
    agent_message::encoded bytes = message().encode();
    if (w.one_in(40))
      bytes[w.random() % bytes.size()] = w.random.byte();
    channel_.put(bytes, w.now);
    on_arrived();
  }

  void check()
  {
    for (const auto& [number, each] : memory_)
      w.require(!each.is_open || owned_.find(number), "memory is open without a lease");
    for (const operation& each : operations_)
      w.require(each.has_ended || each.deadline >= w.now, "an operation has outlived its deadline");
    if (!is_over())
      w.require(!owned_.overdue(w.now - 1ms), "a lease has outlived its end");
  }

private:
  agent_message message()
  {
    agent_message m;
    m.type = static_cast<message_type>(1 + w.random() % 9);
    switch (m.type)
    {
    case message_type::done:
    case message_type::granted:
    case message_type::refused:
      answer(m);
      break;
    case message_type::allocate:
      m.id = 1 + w.random() % 4;
      m.alignment = 64;
      m.lifetime = lifetime();
      m.memory = remote_buffer(0, 64, {}, rdma::remote_access);
      break;
    case message_type::renew:
      m.lifetime = lifetime();
      [[fallthrough]];
    case message_type::release:
    case message_type::hand_over:
      m.id = m.type == message_type::release && w.one_in(2) ? 0 : 1 + w.random() % 4;
      m.lease = some(memory_);
      break;
    case message_type::lend:
      m.id = 1 + w.random() % 4;
      m.lifetime = lifetime();
      lease(m);
      break;
    case message_type::recall:
      m.lease = 1 + w.random() % 8;
      break;
    }
    return m;
  }

  void answer(agent_message& m)
  {
    m.id = some(in_flight_);
    const auto found = in_flight_.find(m.id);
    const agent_message asked = found == in_flight_.end() ? agent_message() : found->second;
    if (m.type == message_type::refused)
      m.status = static_cast<refusal_status>(
        1 + w.random() % static_cast<unsigned>(rdma::detail::refusal_status_last));
    else
      m.lifetime = w.one_in(8) ? lifetime() : asked.lifetime - (w.one_in(2) ? 1 : 0);
    if (m.type == message_type::done && asked.type != message_type::renew && !w.one_in(8))
      m.lifetime = 0;
    if (m.type == message_type::granted)
      lease(m);
  }

  void lease(agent_message& m)
  {
    m.lease = 1 + w.random() % 8;
    m.memory = remote_buffer(w.one_in(20) ? 7 : m.lease * 64, w.one_in(20) ? 128 : 64,
      w.one_in(20) ? device_keys{0, 7} : device_keys{7},
      w.one_in(20) ? rdma::access::remote_read : rdma::remote_access);
  }

  std::uint64_t lifetime()
  {
    static constexpr std::uint64_t some[] = {0, 1, 10, 100, 1000, agent_message::no_limit};
    return some[w.random() % std::size(some)];
  }

  template <class Map>
  typename Map::key_type some(const Map& of)
  {
    if (of.empty() || w.one_in(20))
      return 1 + w.random() % 40;
    return std::next(of.begin(), static_cast<std::ptrdiff_t>(w.random() % of.size()))->first;
  }
};

void run(world& w, attacked& own)
{
  const auto check = [&]
  {
    own.check();
    require(w.problem.empty(), w.problem.c_str());
  };
  for (unsigned i = 0; i < 2000 && !w.random.is_over() && !own.is_over(); ++i)
  {
    switch (w.random() % 5)
    {
    case 0:
    case 1:
      own.act();
      break;
    case 2:
    case 3:
      own.attack();
      break;
    default:
      const time_point until = w.now + w.any(4 * w.delay);
      while (!w.agenda.empty() && w.agenda.begin()->first <= until)
        w.step();
      w.now = until;
    }
    check();
  }
  const bool finishes_first = w.one_in(2);
  if (finishes_first)
    own.finish();
  own.end(rdma::error::peer_lost);
  if (!finishes_first)
    own.finish();
  while (!w.agenda.empty())
    w.step();
  check();
  own.check_end();
  require(w.problem.empty(), w.problem.c_str());
}

} // namespace
} // namespace test::agent_simulation

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  using namespace test::agent_simulation;
  world w{test::dice(std::span(data, size))};
  w.is_hostile = true;
  peer other(w);
  attacked own(w);
  own.join(other);
  other.join(own);
  run(w, own);
  return 0;
}
