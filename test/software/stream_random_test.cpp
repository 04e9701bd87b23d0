//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Many streams between processes that write, read, cancel, close and are killed at random. Each
// end makes the plans of both ends from the stream's seed, and checks what it receives.

#include "common/inventory.hpp"
#include "common/process.hpp"
#include "common/sanitizers.hpp"
#include "software/connect_fixture.hpp"

#include <boost_rdma/stream.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace test::stream_random_test {
namespace {

constexpr unsigned clients_of_round = 2;
constexpr std::size_t bytes_max = 300'000;          ///< of one end of a stream
constexpr unsigned server_index = clients_of_round; ///< of the processes of a round

unsigned streams_wanted()
{
  return exhaustive() && !BOOST_RDMA_TEST_ADDRESS_SANITIZER && !BOOST_RDMA_TEST_THREAD_SANITIZER
    ? 10'000
    : 200;
}

using random_engine = std::minstd_rand;

/// Returns a number from 0 to `most`, small ones more often than large ones.
std::size_t random_size(random_engine& random, std::size_t most)
{
  const std::size_t limit = most >> random() % 12;
  return std::uniform_int_distribution<std::size_t>(0, limit)(random);
}

bool one_in(unsigned count, random_engine& random)
{
  return std::uniform_int_distribution<unsigned>(1, count)(random) == 1;
}

enum class ending
{
  finish,         ///< after its bytes: shutdown, then reads to the peer's end
  close,          ///< after its bytes: closes
  close_in_write, ///< closes while its last write is outstanding
};

/// The plan of one end of a stream.
struct end_plan
{
  end_plan(unsigned seed, bool is_server)
  {
    random_engine random(2 * seed + (is_server ? 1 : 2));
    static_cast<void>(random());
    key = (std::uint64_t{random()} << 32) + random();
    bytes = random_size(random, bytes_max);
    // Bounds the number of operations.
    write_max = bytes_max / 64 + random_size(random, 100'000);
    read_max = bytes_max / 64 + random_size(random, 100'000);
    how = one_in(2, random) ? ending::finish
      : one_in(2, random)   ? ending::close
                            : ending::close_in_write;
    // Only one side, because two ends that only write would wait for each other.
    if (is_server && how != ending::finish && one_in(2, random))
      read_limit = random_size(random, 100'000);
    cancels = one_in(4, random);
    options.close_limit = patience; // the peer may be slow
    options.receives = 8u << random() % 3;
    options.ring_min = 1024u << random() % 4;
    options.ring_max = options.ring_min << random() % 6;
  }

  std::uint64_t key = 0; ///< of the bytes that this end writes
  std::size_t bytes = 0; ///< written before the end
  std::size_t write_max = 0;
  std::size_t read_max = 0;
  std::size_t read_limit = SIZE_MAX; ///< bytes after which it reads no more
  ending how = ending::finish;
  bool cancels = false;
  rdma::stream_options options;
};

/// The processes of a round. Those with a limit are killed when they have received as many bytes.
struct round_plan
{
  explicit round_plan(unsigned seed)
  {
    random_engine random(seed);
    static_cast<void>(random());
    for (auto& each : kill_after)
      if (one_in(3, random))
        each = random_size(random, 200'000);
    for (auto& each : streams)
      for (std::size_t i = 1 + random() % 12; i != 0; --i)
        each.push_back(static_cast<unsigned>(random() % 1'000'000'000));
  }

  [[nodiscard]] bool kills(unsigned process) const { return kill_after[process].has_value(); }

  std::array<std::optional<std::size_t>, clients_of_round + 1> kill_after;
  std::array<std::vector<unsigned>, clients_of_round> streams; ///< the seeds of each client's
};

/// Stores the bytes of a pseudo-random sequence from this position on.
void generate(std::uint64_t key, std::size_t position, std::string& to)
{
  for (char& each : to)
  {
    std::uint64_t x = key + position / 8 * 0x9e3779b97f4a7c15u; // splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    each = static_cast<char>(x >> position % 8 * 8);
    ++position;
  }
}

/// Counts of the ends of all processes and their streams.
struct board
{
  std::atomic<unsigned> complete{0};  ///< ends that read all bytes of the peer, and the end
  std::atomic<unsigned> reset{0};     ///< ends whose peer closed or was killed
  std::atomic<unsigned> closed{0};    ///< ends that closed before the peer's end
  std::atomic<unsigned> cancelled{0}; ///< operations
  std::atomic<unsigned> killed{0};    ///< processes that asked to be killed
};

class stream_end;

/// A process of a round, with the ends of its streams.
class party
{
public:
  party(board& counters, unsigned seed, unsigned index, int line)
    : counts(counters)
    , plan(seed)
    , seed_(seed)
    , index_(index)
    , line_(line)
  {
  }

  /// Counts received bytes, and asks the test to kill this process when it is time.
  void received(std::size_t bytes)
  {
    received_ += bytes;
    if (auto& limit = plan.kill_after[index_]; limit && received_ >= *limit)
    {
      limit.reset();
      if (::write(line_, "k", 1) != 1)
        fail("cannot ask to be killed");
    }
  }

  void fail(const std::string& text)
  {
    std::fprintf(stderr, "round %u, process %u: %s\n", seed_, index_, text.c_str());
    good = false;
  }

  board& counts;
  round_plan plan;
  asio::io_context io;
  rdma::context context = make_context();
  std::list<stream_end> ends;
  bool good = true;

private:
  unsigned seed_;
  unsigned index_;
  int line_;
  std::size_t received_ = 0;
};

/// One end of a stream.
class stream_end
{
public:
  /// `peer_dies`: the peer's process is one of those that are killed.
  stream_end(party& owner, unsigned seed, bool is_server, bool peer_dies)
    : owner_(owner)
    , name_("stream " + std::to_string(seed) + (is_server ? ", server" : ", client"))
    , mine_(seed, is_server)
    , peers_(seed, !is_server)
    , may_be_reset_(peer_dies || peers_.how != ending::finish)
    , random_(seed)
  {
  }
  stream_end(const stream_end&) = delete;
  stream_end& operator=(const stream_end&) = delete;

  /// Uses a connected queue pair. `self`: this end in the list of its owner.
  void start(std::list<stream_end>::iterator self, rdma::queue_pair peer)
  {
    self_ = self;
    try
    {
      stream_.emplace(std::move(peer), mine_.options);
    }
    catch (const rdma::system_error& e)
    {
      if (e.code() != error::not_connected || !may_be_reset_)
        fail("cannot make a stream", e.code());
      return remove();
    }
    step();
  }

  void start(std::list<stream_end>::iterator self, error_code ec)
  {
    self_ = self;
    if (!may_be_reset_)
      fail("cannot connect", ec);
    remove();
  }

private:
  void fail(const char* what, const error_code& ec)
  {
    std::ostringstream text;
    text << name_ << ": " << what << ": " << ec << ' ' << ec.message() << "; sent " << sent_
         << " of " << mine_.bytes << ", received " << received_ << " of " << peers_.bytes;
    owner_.fail(text.str());
  }

  void step()
  {
    if (!closed_ && !writing_ && !write_over_)
      write();
    if (!closed_ && !reading_ && !read_over_)
      read();
    if (!reading_ && !writing_ && write_over_ && read_over_)
      close();
    if (closed_ && !reading_ && !writing_)
      remove();
  }

  void write()
  {
    if (sent_ == mine_.bytes)
    {
      write_over_ = true;
      if (mine_.how == ending::finish)
        stream_->shutdown(rdma::stream::shutdown_type::shutdown_send);
      else
        close();
      return;
    }
    const std::size_t rest = mine_.bytes - sent_;
    out_.resize(std::min(rest, 1 + random_size(random_, mine_.write_max)));
    generate(mine_.key, sent_, out_);
    const std::size_t first = random_() % 4 == 0 ? random_size(random_, out_.size()) : out_.size();
    const std::array parts{
      asio::buffer(out_.data(), first), asio::buffer(out_.data() + first, out_.size() - first)};
    writing_ = true;
    stream_->async_write_some(parts,
      [this](error_code ec, std::size_t n)
      {
        writing_ = false;
        sent_ += n;
        if (ec && n != 0)
          fail("a write has an error and a size", ec);
        if (ec == asio::error::connection_reset && may_be_reset_)
          write_over_ = true;
        else if (ec && !is_cancelled(ec))
        {
          fail("write", ec);
          write_over_ = true;
        }
        step();
      });
    if (mine_.how == ending::close_in_write && out_.size() == rest)
      close();
  }

  void read()
  {
    if (received_ >= mine_.read_limit)
    {
      read_over_ = true;
      return;
    }
    in_.resize(1 + random_size(random_, mine_.read_max));
    reading_ = true;
    stream_->async_read_some(asio::buffer(in_),
      [this](error_code ec, std::size_t n)
      {
        reading_ = false;
        in_.resize(n);
        take(ec);
        step();
      });
    if (mine_.cancels && one_in(8, random_))
    {
      was_cancelled_ = true;
      stream_->cancel();
    }
  }

  void take(const error_code& ec)
  {
    std::string expected(in_.size(), '\0');
    generate(peers_.key, received_, expected);
    if (in_ != expected || (ec && !in_.empty()) || (!ec && in_.empty()))
      fail("wrong bytes", ec);
    received_ += in_.size();
    owner_.received(in_.size());
    if (received_ > peers_.bytes)
      fail("too many bytes", ec);
    if (!ec || is_cancelled(ec))
      return;
    read_over_ = true;
    if (ec == asio::error::eof)
    {
      // Closing in a write may be before it, or after it.
      if (received_ != peers_.bytes && peers_.how != ending::close_in_write)
        fail("the end comes too early", ec);
      ++owner_.counts.complete;
    }
    else if (ec == asio::error::connection_reset && may_be_reset_)
      ++owner_.counts.reset;
    else
      fail("read", ec);
  }

  bool is_cancelled(const error_code& ec)
  {
    if (ec != asio::error::operation_aborted || !(closed_ || was_cancelled_))
      return false;
    if (!closed_)
      ++owner_.counts.cancelled;
    return true;
  }

  void close()
  {
    if (closed_)
      return;
    closed_ = true;
    if (!read_over_)
      ++owner_.counts.closed;
    stream_->close();
  }

  void remove()
  {
    if (!std::exchange(removed_, true))
      asio::post(owner_.io, [this] { owner_.ends.erase(self_); });
  }

  party& owner_;
  const std::string name_;
  const end_plan mine_;
  const end_plan peers_;
  const bool may_be_reset_;
  random_engine random_;
  std::list<stream_end>::iterator self_;
  std::optional<rdma::stream> stream_;
  std::string out_;
  std::string in_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  bool writing_ = false;
  bool reading_ = false;
  bool write_over_ = false;
  bool read_over_ = false;
  bool closed_ = false;
  bool was_cancelled_ = false;
  bool removed_ = false;
};

/// Serves the streams of a round until the test closes `no_more`.
bool serve(party& p, int line, int no_more)
{
  rdma::acceptor acceptor(p.io, p.context, loopback());
  const std::uint16_t port = acceptor.local_endpoint().port();
  if (::write(line, &port, sizeof port) != sizeof port)
    return false;
  const std::function<void()> accept = [&]
  {
    acceptor.async_accept(
      [&](error_code ec, rdma::queue_pair peer)
      {
        if (ec == asio::error::operation_aborted)
          return;
        if (ec)
          p.fail("accept: " + ec.message());
        else
        {
          unsigned client = 0;
          unsigned seed = 0;
          std::istringstream(peer.peer_data()) >> client >> seed;
          const auto added =
            p.ends.emplace(p.ends.end(), p, seed, true, p.plan.kills(client % clients_of_round));
          added->start(added, std::move(peer));
        }
        accept();
      });
  };
  accept();
  asio::posix::stream_descriptor watch(p.io, no_more);
  bool no_clients = false;
  watch.async_wait(
    asio::posix::stream_descriptor::wait_read, [&](error_code) { no_clients = true; });
  if (!run_until(p.io, [&] { return no_clients && p.ends.empty(); }))
    p.fail("a stream hangs");
  watch.release();
  acceptor.close();
  return run_out(p.io) && p.good;
}

/// Opens the streams of this client.
bool use(party& p, unsigned index, std::uint16_t port)
{
  std::list<rdma::queue_pair> connecting;
  for (const unsigned seed : p.plan.streams[index])
  {
    const auto added = p.ends.emplace(p.ends.end(), p, seed, false, p.plan.kills(server_index));
    rdma::queue_pair& peer = connecting.emplace_back(p.io, p.context);
    rdma::connect_options options;
    options.data = std::to_string(index) + ' ' + std::to_string(seed);
    peer.async_connect(loopback(port), options,
      [&peer, added](error_code ec)
      { ec ? added->start(added, ec) : added->start(added, std::move(peer)); });
  }
  if (!run_until(p.io, [&] { return p.ends.empty(); }))
    p.fail("a stream hangs");
  return run_out(p.io) && p.good;
}

/// Runs a process of a round. Returns false if it found a mistake, or left something behind.
template <class Work>
bool play_part(board& counts, unsigned seed, unsigned index, int line, Work work)
{
  ::alarm(100); // a process that hangs fails the test by SIGALRM
  static_cast<void>(make_context());
  const inventory before;
  bool good = false;
  {
    party p(counts, seed, index, line);
    good = work(p);
  }
  const inventory after = settled(before);
  if (after <= before)
    return good;
  std::ostringstream text;
  text << after << " instead of " << before;
  std::fprintf(stderr, "round %u, process %u: %s\n", seed, index, text.str().c_str());
  return false;
}

/// A pipe whose ends are closed with it.
struct pipe_ends
{
  pipe_ends() { REQUIRE(::pipe2(fds.data(), O_CLOEXEC) == 0); }
  ~pipe_ends()
  {
    close(0);
    close(1);
  }
  pipe_ends(const pipe_ends&) = delete;
  pipe_ends& operator=(const pipe_ends&) = delete;

  void close(std::size_t end)
  {
    if (const int fd = std::exchange(fds[end], -1); fd >= 0)
      ::close(fd);
  }

  std::array<int, 2> fds{};
};

/// A process of a round, and the pipe by which it asks to be killed.
struct actor
{
  explicit actor(const std::function<bool(int)>& body)
    : runs(
      [&]
      {
        line.close(0);
        return body(line.fds[1]);
      })
  {
    line.close(1);
  }

  /// Call this when the pipe is readable. Returns true if the process asked to be killed.
  bool hear()
  {
    char c = 0;
    const bool asks = ::read(line.fds[0], &c, 1) == 1;
    CHECK((asks ? runs.kill_or_succeed() : runs.succeeded()));
    line.close(0);
    return asks;
  }
  [[nodiscard]] bool has_ended() const { return line.fds[0] < 0; }

  pipe_ends line;
  process runs;
};

/// Hears these processes until the first `count` have ended.
void watch(board& counts, std::list<actor>& all, std::size_t count)
{
  const auto ended = [&]
  {
    return std::all_of(all.begin(), std::next(all.begin(), static_cast<std::ptrdiff_t>(count)),
      [](const actor& each) { return each.has_ended(); });
  };
  while (!ended())
  {
    std::vector<pollfd> lines;
    for (const actor& each : all)
      lines.push_back({each.line.fds[0], POLLIN, 0}); // poll() ignores those that are closed
    REQUIRE(::poll(lines.data(), lines.size(), -1) > 0);
    auto next = all.begin();
    for (const pollfd& line : lines)
    {
      if (line.revents != 0 && next->hear())
        ++counts.killed;
      ++next;
    }
  }
}

/// Runs a server and clients. Returns the number of streams.
std::size_t play_round(board& counts, unsigned seed)
{
  const round_plan plan(seed);
  pipe_ends no_more;
  std::list<actor> server;
  server.emplace_back(
    [&](int line)
    {
      no_more.close(1);
      return play_part(
        counts, seed, server_index, line, [&](party& p) { return serve(p, line, no_more.fds[0]); });
    });
  std::uint16_t port = 0;
  REQUIRE(::read(server.front().line.fds[0], &port, sizeof port) == sizeof port);
  std::list<actor> all;
  std::size_t streams = 0;
  for (unsigned i = 0; i != clients_of_round; ++i)
  {
    streams += plan.streams[i].size();
    all.emplace_back(
      [&, i](int line)
      {
        no_more.close(1);
        return play_part(counts, seed, i, line, [&](party& p) { return use(p, i, port); });
      });
  }
  all.splice(all.end(), server);
  watch(counts, all, clients_of_round);
  no_more.close(1);
  watch(counts, all, all.size());
  return streams;
}

} // namespace

// BOOST_RDMA_TEST_SEED repeats a run's random choices.
TEST_CASE(
  "streams of processes that close or are killed at random deliver right bytes and their end",
  "[long]")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const char* const given = std::getenv("BOOST_RDMA_TEST_SEED");
  const unsigned first =
    given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  void* const memory =
    ::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  board& counts = *new (memory) board;
  std::size_t streams = 0;
  for (unsigned seed = first; streams < streams_wanted(); ++seed)
  {
    CAPTURE(seed);
    streams += play_round(counts, seed);
  }
  CAPTURE(first, streams);
  CHECK(counts.complete != 0);
  CHECK(counts.reset != 0);
  CHECK(counts.closed != 0);
  CHECK(counts.cancelled != 0);
  CHECK(counts.killed != 0);
  ::munmap(memory, sizeof(board));
}

} // namespace test::stream_random_test
