//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests that processes that are killed while they connect by RDMA-CM, or use the connection, leave
// nothing behind in their peers.

#include "common/allocations.hpp"
#include "common/inventory.hpp"
#include "common/process.hpp"
#include "common/sanitizers.hpp"
#include "software/cm_fixture.hpp"
#include "software/verbs_fixture.hpp"
#include "verbs/software/cm/cm.hpp"

#include <boost/asio/post.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace test::cm_killed_test {
namespace {

constexpr std::size_t message_size = 64;
constexpr unsigned at_once = 5; ///< clients; the start of a process dominates the time of a connect
constexpr unsigned queue_pairs_max = 64; ///< of the server

unsigned connects()
{
  return exhaustive() && !BOOST_RDMA_TEST_ADDRESS_SANITIZER && !BOOST_RDMA_TEST_THREAD_SANITIZER
    ? 10'000
    : 200;
}

/// The objects and the memory that a server holds.
struct holdings
{
  /// Returns true if there is nothing that `other`, which may be about to lose something, does not
  /// have. Except the heap, in which containers keep room.
  bool no_more_than(const holdings& other) const
  {
    return connections == other.connections && free_queue_pairs == other.free_queue_pairs
      && descriptors <= other.descriptors && threads <= other.threads
      && shared_mappings <= other.shared_mappings;
  }

  std::size_t connections = 0;
  std::size_t free_queue_pairs = 0;
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t shared_mappings = 0;
  std::ptrdiff_t allocations = 0;

  friend std::ostream& operator<<(std::ostream& out, const holdings& h)
  {
    return out << h.connections << " connections, " << h.free_queue_pairs << " free queue pairs, "
               << h.descriptors << " descriptors, " << h.threads << " threads, "
               << h.shared_mappings << " shared mappings, " << h.allocations << " allocations";
  }
};

/// The memory that all processes of the test share.
struct board
{
  std::atomic<std::uint16_t> port{0};
  std::atomic<unsigned> servers{0};  ///< even: a server listens
  std::atomic<unsigned> attempts{0}; ///< connects that have begun
  std::atomic<unsigned> connected{0};
  std::atomic<unsigned> kills{0};
  std::atomic<bool> calm{false};         ///< clients end, and are not killed
  std::atomic<bool> end{false};          ///< the steady client ends
  std::atomic<unsigned> steady_turns{0}; ///< round trips of the steady client
  std::atomic<unsigned> asked{0};        ///< counts requests for `held`
  std::atomic<unsigned> answered{0};
  holdings held;
};

rdma::context limited_context()
{
  rdma::context_options options;
  options.software.max_queue_pairs = queue_pairs_max;
  return make_context(options);
}

rdma::queue_pair_options small()
{
  return of_depth(2);
}

/// Echoes the messages of all clients.
class server
{
public:
  explicit server(board& with)
    : board_(with)
    , acceptor_(io_, context_, {device_address(), with.port}, options())
  {
    accept();
    board_.port = acceptor_.local_endpoint().port();
    ++board_.servers;
  }

  [[noreturn]] void run()
  {
    for (;;)
    {
      io_.run_for(std::chrono::milliseconds(1));
      if (const unsigned asked = board_.asked; asked != board_.answered)
      {
        board_.held = measure();
        board_.answered = asked;
      }
    }
  }

private:
  struct client
  {
    client(const rdma::context& context, rdma::queue_pair accepted)
      : memory(context.allocate(message_size))
      , peer(std::move(accepted))
    {
    }
    rdma::registered_buffer memory;
    rdma::queue_pair peer;
  };
  using entry = std::list<client>::iterator;

  static cm::acceptor_options options()
  {
    cm::acceptor_options result;
    result.queue_pair = small();
    return result;
  }

  void accept()
  {
    acceptor_.async_accept(
      [this](error_code ec, rdma::queue_pair accepted)
      {
        if (ec)
          throw rdma::system_error(ec, "accept");
        receive(clients_.emplace(clients_.end(), context_, std::move(accepted)));
        accept();
      });
  }
  void receive(entry of)
  {
    of->peer.async_receive(of->memory,
      [this, of](error_code ec, std::size_t)
      {
        if (ec)
          return remove(of);
        of->peer.async_send(of->memory,
          [this, of](error_code failed, std::size_t) { failed ? remove(of) : receive(of); });
      });
  }
  void remove(entry which)
  {
    asio::post(io_, [this, which] { clients_.erase(which); });
  }

  [[nodiscard]] holdings measure()
  {
    holdings now;
    now.connections = clients_.size();
    {
      std::list<rdma::queue_pair> more;
      try
      {
        for (;;)
          more.emplace_back(io_, context_, small());
      }
      catch (const rdma::system_error&)
      {
      }
      now.free_queue_pairs = more.size();
    }
    const inventory counted;
    now.descriptors = counted.descriptors;
    now.threads = counted.threads;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      now.shared_mappings += line.find("memfd:boost_rdma") != std::string::npos ? 1 : 0;
    maps.close();
    now.allocations = heap_.kept();
    return now;
  }

  allocation_count heap_;
  board& board_;
  asio::io_context io_;
  rdma::context context_ = limited_context();
  std::list<client> clients_;
  cm::acceptor acceptor_;
};

/// A client's end of a connection.
class caller
{
public:
  /// Connects. If that fails, the connection is not open.
  explicit caller(board& with)
    : board_(with)
    , message_(context_.allocate(message_size))
    , answer_(context_.allocate(message_size))
  {
    data_record connected;
    cm::async_connect(peer_, {device_address(), with.port}, connected.handler());
    ended_ = run_until(io_, [&] { return connected.done(); });
    ec_ = connected.ec;
    if (good())
      ++board_.connected;
  }

  /// Sends a message and receives it back.
  void call(unsigned number)
  {
    bytes_record sent;
    bytes_record received;
    const std::string text = std::to_string(number);
    fill(message_, text);
    fill(answer_, std::string(message_size, ' '));
    peer_.async_receive(answer_, received.handler());
    peer_.async_send(message_, sent.handler());
    ended_ = run_until(io_, [&] { return sent.done() && received.done(); });
    ec_ = sent.ec ? sent.ec : received.ec;
    if (good() && !text_of(answer_).starts_with(text))
      ec_ = make_error_code(boost::system::errc::bad_message);
  }

  [[nodiscard]] bool good() const { return ended_ && !ec_; }
  /// Returns true if an operation failed while the server was there, or did not end.
  [[nodiscard]] bool failed(unsigned servers) const
  {
    if (ended_ && (!ec_ || board_.servers != servers || servers % 2 != 0))
      return false;
    std::fprintf(stderr, "client: %s\n", ended_ ? ec_.message().c_str() : "an operation hangs");
    return true;
  }

private:
  board& board_;
  asio::io_context io_;
  rdma::context context_ = make_context();
  rdma::registered_buffer message_;
  rdma::registered_buffer answer_;
  rdma::queue_pair peer_{io_, context_, small()};
  bool ended_ = false;
  error_code ec_;
};

/// Connects and calls again and again. `begun`: gets a byte for each connect.
bool be_client(board& with, unsigned seed, int begun)
{
  std::minstd_rand random(seed);
  while (!with.calm)
  {
    const unsigned servers = with.servers;
    ++with.attempts;
    if (::write(begun, "c", 1) != 1)
      return false;
    caller one(with);
    for (unsigned calls = random() % 4; calls != 0 && one.good(); --calls)
      one.call(calls);
    if (one.failed(servers))
      return false;
  }
  return true;
}

/// Starts clients one after another and kills them at a random moment.
bool kill_clients(board& with, unsigned seed)
{
  std::minstd_rand random(seed);
  for (;;)
  {
    int begun[2];
    if (::pipe2(begun, O_CLOEXEC) != 0)
      return false;
    process client(
      [&]
      {
        ::close(begun[0]);
        return be_client(with, seed + with.kills, begun[1]);
      });
    ::close(begun[1]);
    char c = 0;
    bool lives = true;
    for (unsigned connects = 1 + random() % 4; connects != 0 && lives; --connects)
      lives = ::read(begun[0], &c, 1) == 1;
    // A random delay, not a wait for an event.
    const timespec moment{0, std::uniform_int_distribution<long>(0, 3'000'000)(random)};
    ::nanosleep(&moment, nullptr);
    if (with.calm)
    {
      const bool good = client.succeeded();
      ::close(begun[0]);
      return good;
    }
    const bool killed = lives && client.kill();
    ::close(begun[0]);
    if (!killed)
      return false;
    ++with.kills;
  }
}

/// Keeps one connection.
bool stay(board& with)
{
  const unsigned servers = with.servers;
  caller one(with);
  while (one.good() && !with.end)
  {
    one.call(with.steady_turns);
    ++with.steady_turns;
  }
  return !one.failed(servers);
}

/// Connects by the table of RDMA-CM, but keeps the queue pair in RESET. Returns when the RTU is
/// sent.
bool connect_without_link(board& with)
{
  const auto& api = rdma::software::cm_api();
  verbs_device device;
  const endpoint unlinked(device);
  rdma_event_channel* const channel = api.create_event_channel();
  rdma_cm_id* id = nullptr;
  const auto event = [&](rdma_cm_event_type wanted)
  {
    rdma_cm_event* found = nullptr;
    must(api.get_cm_event(channel, &found) == 0 && found->event == wanted, "get_cm_event");
    must(api.ack_cm_event(found) == 0, "ack_cm_event");
  };
  must(api.create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "create_id");
  tcp::endpoint to(device_address(), with.port);
  must(api.resolve_addr(id, nullptr, to.data(), 1000) == 0, "resolve_addr");
  event(RDMA_CM_EVENT_ADDR_RESOLVED);
  must(api.resolve_route(id, 1000) == 0, "resolve_route");
  event(RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param parameters{};
  parameters.qp_num = unlinked.qp()->qp_num;
  must(api.connect(id, &parameters) == 0, "connect");
  event(RDMA_CM_EVENT_CONNECT_RESPONSE);
  must(api.establish(id) == 0, "establish");
  ++with.connected;
  for (;;)
    ::pause();
}

/// The servers of the test, one after another.
class stage
{
public:
  explicit stage(unsigned seed)
    : random(seed)
    , seed_(seed)
  {
    void* const memory =
      ::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    shared = new (memory) board;
    // Outside of the range of ephemeral ports, so that no client takes it between two servers.
    shared->port = static_cast<std::uint16_t>(22'000 + random() % 8'000);
    restart();
  }
  ~stage()
  {
    server_.reset();
    ::munmap(shared, sizeof(board));
  }
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  void restart()
  {
    ++shared->servers;
    if (server_)
      REQUIRE(server_->kill());
    server_ = std::make_unique<process>(
      [this]
      {
        server(*shared).run();
        return false;
      });
    REQUIRE(until([&] { return shared->servers % 2 == 0; }));
  }

  /// Runs clients, and kills them, for this number of connects. Calls `step` after each.
  void storm(
    unsigned connects, const std::function<void()>& step = [] {})
  {
    shared->calm = false;
    std::list<process> killers;
    for (unsigned i = 0; i != at_once; ++i)
      killers.emplace_back([this, seed = seed_++] { return kill_clients(*shared, seed); });
    const unsigned before = shared->attempts;
    for (unsigned done = 0; done != connects; ++done)
    {
      REQUIRE(until([&] { return shared->attempts - before > done; }));
      step();
    }
    shared->calm = true;
    for (process& each : killers)
      CHECK(each.succeeded());
  }

  /// Returns what the server holds.
  holdings ask()
  {
    const unsigned asked = ++shared->asked;
    REQUIRE(until([&] { return shared->answered == asked; }));
    return shared->held;
  }

  std::minstd_rand random;
  board* shared;

private:
  unsigned seed_;
  std::unique_ptr<process> server_;
};

} // namespace

TEST_CASE(
  "killing a client of RDMA-CM before its queue pair is linked ends the server's operations")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  stage on(1);
  process client([&] { return connect_without_link(*on.shared); });
  REQUIRE(until([&] { return on.shared->connected == 1; }));
  REQUIRE(until([&] { return on.ask().connections == 1; }));
  REQUIRE(client.kill());
  CHECK(until([&] { return on.ask().connections == 0; }));
  CHECK(on.ask().free_queue_pairs == queue_pairs_max);
}

// [long]: test/vm/suite leaves it out. BOOST_RDMA_TEST_SEED repeats a run's random choices.
TEST_CASE("clients of RDMA-CM that are killed at any moment leave nothing in the server", "[long]")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const char* const given = std::getenv("BOOST_RDMA_TEST_SEED");
  const unsigned seed =
    given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  CAPTURE(seed);
  stage on(seed);
  const unsigned third = connects() / 3;

  // Servers are killed, too.
  on.storm(third,
    [&]
    {
      if (on.random() % 32 == 0)
        on.restart();
    });
  on.restart();

  process steady([&] { return stay(*on.shared); });
  REQUIRE(until([&] { return on.shared->steady_turns != 0; }));
  const holdings fresh = on.ask();
  CAPTURE(fresh);
  CHECK(fresh.connections == 1);
  const auto settled = [&]
  {
    // Links that no queue pair uses are released after two seconds at most.
    holdings now;
    const bool is_fresh = until([&] { return (now = on.ask()).no_more_than(fresh); });
    CAPTURE(now);
    CHECK(is_fresh);
    return now;
  };
  on.storm(third); // containers grow
  const holdings before = settled();
  const unsigned kills = on.shared->kills;
  on.storm(third);
  const holdings now = settled();
  // Anything that each killed client leaves is at least one allocation.
  CHECK(
    now.allocations - before.allocations < static_cast<std::ptrdiff_t>(on.shared->kills - kills));

  CHECK(on.shared->connected > third);
  const unsigned turns = on.shared->steady_turns;
  CHECK(until([&] { return on.shared->steady_turns > turns; }));
  on.shared->end = true;
  CHECK(steady.succeeded());
}

} // namespace test::cm_killed_test
