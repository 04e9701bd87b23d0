//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests processes that are killed at any instruction, and the state and the memory of their peers.

#include "common/inventory.hpp"
#include "common/sanitizers.hpp"
#include "software/shared_region.hpp"
#include "software/verbs_processes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <random>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>

using namespace test;

namespace {

constexpr std::size_t size = 64 * 1024;
constexpr std::size_t written_size = 2048;

// Several are killed concurrently, because the start and end of processes dominate a round.
constexpr unsigned at_once = 5;

unsigned kills()
{
#if BOOST_RDMA_TEST_ADDRESS_SANITIZER || BOOST_RDMA_TEST_THREAD_SANITIZER
  return 300; // sanitizer builds have a tenth of the speed
#else
  return exhaustive() ? 10'000 : 2'000;
#endif
}

rdma::software::device_settings on_loopback()
{
  rdma::software::device_settings s;
  s.addresses = {"127.0.0.1"};
  // For processes that are killed before they are connected.
  s.retry_time_min = std::chrono::milliseconds(50);
  return s;
}

/// Posts every kind of request, as long as the queue accepts it.
void hammer(const endpoint& e, const memory& m, const end_name& peer, unsigned turn)
{
  const std::array<std::size_t, 4> sizes{8, 64, 5000, size / 2};
  const std::size_t bytes = sizes[turn / 5 % sizes.size()];
  switch (turn % 5)
  {
  case 0:
    (void)e.write(turn, m.sge(0, bytes), peer.address, peer.key);
    break;
  case 1:
    (void)e.read(turn, m.sge(size / 2, bytes), peer.address, peer.key);
    break;
  case 2:
    (void)e.send(turn, m.sge(0, bytes));
    break;
  case 3:
    (void)e.receive(turn, m.sge(0, size));
    break;
  default:
  {
    request r(IBV_WR_ATOMIC_FETCH_AND_ADD, {m.sge(size - 8, 8)}, turn);
    (void)e.post(r.atomic(peer.address + size - 16, peer.key, 1).wr);
  }
  }
}

pair_options talkative()
{
  pair_options o;
  o.timeout = 1;
  return o;
}

/// The place of a kill, relative to a write that the process makes in each turn.
enum class place : unsigned
{
  before,
  within, ///< between the post and the completion
  after,
  failed, ///< this test's end has ended the connection before
};
constexpr std::size_t places = 4;

/// How far a process is that will be killed. The test reads it afterwards.
class progress
{
public:
  void set(place at, unsigned turn) { word_ = turn * places + static_cast<unsigned>(at); }
  [[nodiscard]] place at() const { return static_cast<place>(word_ % places); }
  [[nodiscard]] unsigned turn() const { return word_ / places; }

private:
  std::atomic<unsigned> word_{0};
};

/// A progress for each process of a round, in memory that all processes share.
class progress_board
{
public:
  progress_board()
    : memory_(
      ::mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
  {
    REQUIRE(memory_ != MAP_FAILED);
    all_ = new (memory_) std::array<progress, at_once>;
  }
  ~progress_board() { ::munmap(memory_, memory_size); }
  progress_board(const progress_board&) = delete;
  progress_board& operator=(const progress_board&) = delete;

  progress& operator[](std::size_t i) const { return (*all_)[i]; }

private:
  static constexpr std::size_t memory_size = sizeof(std::array<progress, at_once>);

  void* memory_;
  std::array<progress, at_once>* all_ = nullptr;
};

/// The byte of which a turn's write consists.
std::byte byte_of(unsigned turn)
{
  return std::byte{static_cast<std::uint8_t>(turn)};
}

/// Returns true if the memory is as a process may leave it: the last word of a write comes last.
bool is_as_left(std::span<const std::byte> bytes, const progress& by)
{
  const std::byte newer = byte_of(by.turn());
  const std::byte older =
    by.at() == place::within || by.at() == place::failed ? byte_of(by.turn() - 1) : newer;
  const auto are = [](std::span<const std::byte> all, std::byte what)
  { return std::all_of(all.begin(), all.end(), [what](std::byte b) { return b == what; }); };
  const auto last = bytes.last(sizeof(std::uint64_t));
  return std::all_of(
           bytes.begin(), bytes.end(), [&](std::byte b) { return b == newer || b == older; })
    && (are(last, older) || are(bytes.first(bytes.size() - last.size()), newer));
}

/// Writes the bytes of this turn, if there is room in the queue, and waits for the completion.
/// Returns false if the write fails.
bool write_turn(
  const endpoint& e, const memory& from, const end_name& to, unsigned turn, progress& own)
{
  constexpr std::uint64_t id = ~std::uint64_t{0};
  own.set(place::within, turn);
  if (e.write(id, from.sge(), to.address, to.key) != 0)
    return false;
  for (;;)
    if (const auto wc = e.sent().poll(); wc && (wc->wr_id == id || wc->status != IBV_WC_SUCCESS))
    {
      const bool good = wc->status == IBV_WC_SUCCESS;
      own.set(good ? place::after : place::failed, turn);
      return good;
    }
}

/// Sends requests to the other end until it is killed.
/// `hammers`: it also sends all other kinds of requests, behind which its writes may wait for long.
void be_killed(const out_of_band& line, int connected, bool hammers, progress& own)
{
  verbs_device d(on_loopback());
  endpoint e(d, talkative());
  memory m(d, size);
  memory written(d, written_size);
  written.fill(std::to_integer<std::uint8_t>(byte_of(1)));
  const end_name peer = line.exchange(e.name(m));
  const end_name target = line.exchange(e.name(written));
  connect_to(e, peer);
  must(::write(connected, "c", 1) == 1, "report the connection");
  bool writes = true;
  for (unsigned turn = 0;; ++turn)
  {
    if (writes)
      own.set(place::before, turn); // the write of this turn is complete
    if (hammers)
      hammer(e, m, peer, turn);
    if (writes)
      writes = write_turn(e, written, target, turn + 1, own);
    written.fill(std::to_integer<std::uint8_t>(byte_of(turn + 2)));
    (void)e.sent().poll();
    (void)e.received().poll();
  }
}

/// Starts a process for each round and kills it shortly after it has connected. It opens no device
/// itself.
bool kill_them(const out_of_band& line, unsigned rounds, unsigned seed, progress& of)
{
  std::minstd_rand random(seed);
  for (unsigned i = 0; i != rounds; ++i)
  {
    const bool hammers = i % 4 != 0;
    int connected[2];
    must(::pipe2(connected, O_CLOEXEC) == 0, "pipe");
    const pid_t pid = ::fork();
    must(pid >= 0, "fork");
    if (pid == 0)
    {
      try
      {
        be_killed(line, connected[1], hammers, of);
      }
      catch (const std::exception& error)
      {
        std::cerr << "to be killed: " << error.what() << '\n';
      }
      ::_exit(EXIT_FAILURE);
    }
    ::close(connected[1]);
    char c = 0;
    const bool lived = ::read(connected[0], &c, 1) == 1;
    ::close(connected[0]);
    // Its later writes need nobody else, so the kill falls before, within or after one.
    if (lived && !hammers)
      must(until([&of] { return of.turn() > 3 || of.at() == place::failed; }), "write");
    // A random delay, not a wait for an event.
    const timespec moment{0, std::uniform_int_distribution<long>(0, 1'500'000)(random)};
    ::nanosleep(&moment, nullptr);
    ::kill(pid, SIGKILL);
    int status = 0;
    must(::waitpid(pid, &status, 0) == pid, "waitpid");
    if (!lived || !WIFSIGNALED(status))
      return false;
    line.meet();
  }
  return true;
}

} // namespace

// [long]: test/vm/suite leaves it out.
TEST_CASE("peers that are killed at any moment do not affect other connections", "[long]")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  const unsigned rounds = kills() / at_once;
  const progress_board board;
  const auto kill = [rounds, &board](unsigned i, unsigned with)
  {
    return [with, rounds, of = &board[i]](const out_of_band& line)
    { return kill_them(line, rounds, with, *of); };
  };
  using killer = child<decltype(kill(0, 0))>;
  std::array<std::unique_ptr<killer>, at_once> killers;
  for (unsigned i = 0; i != at_once; ++i)
    killers[i] = std::make_unique<killer>(kill(i, seed + i));
  child other(
    [rounds](const out_of_band& line)
    {
      verbs_device d(on_loopback());
      endpoint e(d);
      memory m(d, 8);
      connect_to(e, line.exchange(e.name(m)));
      bool good = e.receive(0, m.sge()) == 0;
      line.meet();
      for (unsigned i = 0; i != rounds && good; ++i)
        good = e.received().next().status == IBV_WC_SUCCESS && e.receive(0, m.sge()) == 0
          && e.send(0, m.sge()) == 0 && e.sent().next().status == IBV_WC_SUCCESS;
      line.meet();
      return good;
    });
  verbs_device d(on_loopback());
  endpoint steady(d);
  memory text(d, 8);
  connect_to(steady, other.line().exchange(steady.name(text)));
  other.line().meet();
  // Each queue pair has its own memory: concurrent receives, sends and writes in one memory are
  // unordered.
  std::array<std::unique_ptr<memory>, at_once> memories;
  for (auto& each : memories)
    each = std::make_unique<memory>(d, size);
  std::array<std::unique_ptr<shared_region>, at_once> written;
  for (auto& each : written)
    each = std::make_unique<shared_region>(d, written_size);
  std::array<unsigned, places> fell{};
  holdings before;
  for (unsigned round = 0; round != rounds; ++round)
  {
    {
      struct end
      {
        end(const verbs_device& on, const memory& with)
          : e(on, talkative())
          , m(with)
        {
        }
        endpoint e;
        const memory& m;
        end_name peer;
        bool failed = false;
      };
      std::array<std::unique_ptr<end>, at_once> ends;
      for (unsigned i = 0; i != at_once; ++i)
      {
        ends[i] = std::make_unique<end>(d, *memories[i]);
        ends[i]->peer = killers[i]->line().exchange(ends[i]->e.name(ends[i]->m));
        std::fill_n(written[i]->data(), written_size, byte_of(0));
        board[i].set(place::before, 0);
        (void)killers[i]->line().exchange(written[i]->named(ends[i]->e.name()));
        connect_to(ends[i]->e, ends[i]->peer);
      }
      unsigned turn = 0;
      REQUIRE(until(
        [&]
        {
          ++turn;
          bool all = true;
          for (const auto& each : ends)
          {
            if (!each->failed)
              hammer(each->e, each->m, each->peer, turn);
            for (const completions* from : {&each->e.sent(), &each->e.received()})
              if (const auto wc = from->poll(); wc && wc->status != IBV_WC_SUCCESS)
                each->failed = true;
            all = all && each->failed;
          }
          return all;
        }));
      for (unsigned i = 0; i != at_once; ++i)
      {
        REQUIRE(ends[i]->e.state() == IBV_QPS_ERR);
        killers[i]->line().meet();
        CAPTURE(round, i, board[i].turn(), board[i].at());
        REQUIRE(is_as_left({written[i]->data(), written_size}, board[i]));
        ++fell[static_cast<std::size_t>(board[i].at())];
      }
    }
    REQUIRE(steady.receive(1, text.sge()) == 0);
    REQUIRE(steady.send(2, text.sge()) == 0);
    REQUIRE(steady.received().next().status == IBV_WC_SUCCESS);
    REQUIRE(steady.sent().next().status == IBV_WC_SUCCESS);
    // By this round, all permanent resources exist.
    if (round == rounds / 10)
      before = holdings();
  }
  CAPTURE(fell);
  for (const place each : {place::before, place::within, place::after})
    CHECK(fell[static_cast<std::size_t>(each)] != 0);
  for (auto& each : written)
    each.reset(); // a late writer of the memory is held until somebody asks for it
  CHECK(settled(before) <= before);
  other.line().meet();
  CHECK(other.succeeded());
  for (const auto& each : killers)
    CHECK(each->succeeded());
}
