//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_TRACED_PEER_HPP
#define BOOST_RDMA_TEST_SOFTWARE_TRACED_PEER_HPP

#include "common/catch.hpp"
#include "common/process.hpp"
#include "common/rdma_fixture.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// Peers in their own process whose threads are single-stepped by ptrace(2) and stopped at a chosen
// instruction. Three processes: the test, the tracer, which its constructor forks, and the peer,
// which the tracer forks.

namespace test {

/// Marks the part of a traced peer's work that is stepped.
inline void begin_steps()
{
  ::raise(SIGUSR1); // the tracer discards both signals
}
inline void end_steps()
{
  ::raise(SIGUSR2);
}

/// One end of a line for texts of at most 1 KiB, whose other end is in another process.
class packet_line
{
public:
  explicit packet_line(int fd)
    : fd_(fd)
  {
    const timeval limit{patience.count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  void send(const std::string& text) const
  {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("the line has ended");
  }
  /// Waits for a text. Nothing at the end of the line, and with MSG_DONTWAIT if none has come.
  [[nodiscard]] std::optional<std::string> receive(int flags = 0) const
  {
    std::array<char, 1024> text{};
    const ssize_t n = ::recv(fd_, text.data(), text.size(), flags);
    return n > 0 ? std::optional(std::string(text.data(), static_cast<std::size_t>(n)))
                 : std::nullopt;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

private:
  int fd_;
};

/// An order to the tracer.
struct trace_order
{
  enum class action : int
  {
    start,    ///< start a peer, then as `resume`
    resume,   ///< run to the next begin_steps(), and stop
    step,     ///< run for `calls` and then for `steps`, and stop
    complete, ///< run until the peer has ended
    kill,
  };
  action what = action::resume;
  unsigned calls = 0;    ///< system calls: their entries and their ends
  unsigned steps = 0;    ///< single steps of all threads together
  bool to_sleep = false; ///< the steps end when all threads sleep
};

struct trace_report
{
  enum class place : int
  {
    counted, ///< the numbers of system calls and steps are reached
    marked,  ///< at begin_steps(), or after `step` at end_steps()
    asleep,
    ended, ///< the process has ended
  };
  place where = place::counted;
  unsigned calls = 0;
  unsigned steps = 0;
  int status = 0; ///< of waitpid(2)
};

/// Traces a process that it forks. All of its calls are made by one thread.
class tracer
{
public:
  explicit tracer(const std::function<bool()>& body)
    : pid_(::fork())
  {
    if (pid_ == 0)
    {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::raise(SIGSTOP);
      bool good = false;
      try
      {
        good = body();
      }
      catch (const std::exception& e)
      {
        std::fprintf(stderr, "traced peer: %s\n", e.what());
      }
      ::_exit(good ? 0 : 1);
    }
    if (pid_ < 0 || ::waitpid(pid_, nullptr, WUNTRACED) != pid_
      || ::ptrace(PTRACE_SEIZE, pid_, nullptr,
           PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)
        != 0)
      throw std::runtime_error(std::string("ptrace: ") + std::strerror(errno));
    threads_[pid_];
    ::sigemptyset(&child_signal_);
    ::sigaddset(&child_signal_, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child_signal_, nullptr);
    ::kill(pid_, SIGCONT);
  }
  ~tracer() { kill(); }
  tracer(const tracer&) = delete;
  tracer& operator=(const tracer&) = delete;

  trace_report carry_out(const trace_order& order)
  {
    trace_report report;
    switch (order.what)
    {
    case trace_order::action::kill:
      kill();
      report.where = trace_report::place::ended;
      break;
    case trace_order::action::complete:
      report = run(mode::free, 0, 0, false);
      break;
    case trace_order::action::step:
      if (order.calls != 0)
        report = run(mode::calls, order.calls, SIGUSR2, false);
      report.calls = std::exchange(report.steps, 0);
      stop_all();
      if (report.where == trace_report::place::counted && order.steps != 0)
      {
        const unsigned calls = report.calls;
        report = run(mode::steps, order.steps, SIGUSR2, order.to_sleep);
        report.calls = calls;
        stop_all();
      }
      break;
    default:
      report = run(mode::free, 0, SIGUSR1, false);
      stop_all();
    }
    report.status = status_;
    return report;
  }

private:
  enum class mode
  {
    free,
    calls,
    steps,
  };
  struct thread
  {
    bool stopped = false;
    int signal = 0; ///< to be delivered when it continues
  };
  struct event
  {
    pid_t thread = 0;
    int signal = 0;
    int kind = 0; ///< PTRACE_EVENT_..., or 0
  };

  void resume(pid_t id, thread& which, mode how)
  {
    const auto request = how == mode::steps ? PTRACE_SINGLESTEP
      : how == mode::calls                  ? PTRACE_SYSCALL
                                            : PTRACE_CONT;
    which.stopped = false;
    // ESRCH: the thread has been killed meanwhile.
    ::ptrace(request, id, nullptr, std::exchange(which.signal, 0));
  }

  // Returns the next stop of a thread, if there is one, and counts the ends of threads.
  std::optional<event> next(bool waits)
  {
    int status = 0;
    const pid_t id = ::waitpid(-1, &status, waits ? __WALL : __WALL | WNOHANG);
    if (id <= 0)
      return std::nullopt;
    if (!WIFSTOPPED(status))
    {
      threads_.erase(id);
      if (id == pid_)
        status_ = status;
      return event{id, 0, 0};
    }
    thread& which = threads_[id];
    which.stopped = true;
    event found{id, WSTOPSIG(status), status >> 16};
    if (found.kind == 0 && found.signal != SIGTRAP && found.signal != (SIGTRAP | 0x80)
      && found.signal != SIGUSR1 && found.signal != SIGUSR2)
      which.signal = found.signal;
    unsigned long made = 0;
    if (found.kind == PTRACE_EVENT_CLONE && ::ptrace(PTRACE_GETEVENTMSG, id, nullptr, &made) == 0)
      threads_[static_cast<pid_t>(made)]; // it is traced already
    return found;
  }

  // Continues all threads until `most` stops of this mode, a mark, or the end.
  trace_report run(mode how, unsigned most, int mark, bool to_sleep)
  {
    trace_report result;
    for (auto& [id, each] : threads_)
      if (each.stopped)
        resume(id, each, how);
    while (!threads_.empty())
    {
      const auto found = next(!to_sleep);
      if (!found)
      {
        // A stop that is reported meanwhile ends the wait at once.
        const timespec look{0, 1'000'000};
        if (::sigtimedwait(&child_signal_, nullptr, &look) < 0 && all_sleep())
        {
          result.where = trace_report::place::asleep;
          return result;
        }
        continue;
      }
      if (found->signal == 0)
        continue;
      if (found->kind == 0 && found->signal == mark)
      {
        result.where = trace_report::place::marked;
        return result;
      }
      const int counted = how == mode::calls ? SIGTRAP | 0x80 : SIGTRAP;
      if (how != mode::free && found->kind == 0 && found->signal == counted
        && ++result.steps == most)
        return result;
      resume(found->thread, threads_[found->thread], how);
    }
    result.where = trace_report::place::ended;
    return result;
  }

  void stop_all()
  {
    for (const auto& [id, each] : threads_)
      if (!each.stopped)
        ::ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr);
    const auto runs = [](const auto& each) { return !each.second.stopped; };
    while (std::any_of(threads_.begin(), threads_.end(), runs))
      static_cast<void>(next(true));
  }

  void kill()
  {
    if (threads_.empty())
      return;
    ::kill(pid_, SIGKILL);
    while (!threads_.empty())
      static_cast<void>(next(true));
  }

  [[nodiscard]] bool all_sleep() const
  {
    return std::all_of(threads_.begin(), threads_.end(),
      [this](const auto& each)
      {
        // proc(5): pid (name) state ...
        std::ifstream file(
          "/proc/" + std::to_string(pid_) + "/task/" + std::to_string(each.first) + "/stat");
        std::string line;
        std::getline(file, line);
        const std::size_t at = line.rfind(')');
        return at != std::string::npos && line.compare(at, 3, ") S") == 0;
      });
  }

  pid_t pid_;
  std::map<pid_t, thread> threads_;
  int status_ = 0;
  sigset_t child_signal_{};
};

/// Returns true if this process may trace its children.
[[nodiscard]] inline bool may_trace()
{
  return process(
    []
    {
      try
      {
        tracer probe(
          []
          {
            begin_steps();
            return true;
          });
        trace_order step;
        step.what = trace_order::action::step;
        step.steps = 1;
        return probe.carry_out({}).where == trace_report::place::marked
          && probe.carry_out(step).where == trace_report::place::counted;
      }
      catch (const std::exception&)
      {
        return false;
      }
    })
    .succeeded();
}

/// The test's side of a traced peer. Create it before this process opens a device.
class traced_peer
{
public:
  /// `body` is the peer, which is forked for each start().
  traced_peer(asio::io_context& io, const std::function<bool(const packet_line&)>& body)
    : tracer_([&] { return trace(body); })
    , reports_(io, orders_.close_other())
    , texts_(io, line_.close_other())
  {
    wait_for_report();
    wait_for_text();
  }
  traced_peer(const traced_peer&) = delete;
  traced_peer& operator=(const traced_peer&) = delete;

  /// Starts a peer, or continues with it, up to this point. reported() is true when it has stopped.
  void order(const trace_order& what)
  {
    report_.reset();
    const packet_line line(reports_.native_handle());
    line.send({reinterpret_cast<const char*>(&what), sizeof what});
  }
  [[nodiscard]] bool reported() const { return report_.has_value(); }
  [[nodiscard]] const trace_report& report() const { return *report_; }

  /// Sends the peer a text.
  void send(const std::string& text) { packet_line(texts_.native_handle()).send(text); }
  /// Returns true if a text of the peer has come.
  [[nodiscard]] bool has_text() const { return text_.has_value(); }
  [[nodiscard]] std::string take_text() { return *std::exchange(text_, std::nullopt); }

private:
  struct ends
  {
    ends() { REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0); }
    int close_other()
    {
      ::close(fds[1]);
      return fds[0];
    }
    std::array<int, 2> fds{};
  };

  // The tracer.
  bool trace(const std::function<bool(const packet_line&)>& body)
  {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(orders_.fds[0]);
    ::close(line_.fds[0]);
    std::unique_ptr<tracer> current;
    const packet_line test(orders_.fds[1]);
    for (;;)
    {
      trace_order order;
      if (::recv(orders_.fds[1], &order, sizeof order, 0) != sizeof order)
        return true;
      if (order.what == trace_order::action::start)
      {
        current.reset();
        current = std::make_unique<tracer>(
          [&]
          {
            ::close(orders_.fds[1]);
            return body(packet_line(line_.fds[1]));
          });
      }
      const trace_report report = current->carry_out(order);
      test.send({reinterpret_cast<const char*>(&report), sizeof report});
    }
  }

  void wait_for_report()
  {
    reports_.async_wait(asio::posix::stream_descriptor::wait_read,
      [this](const error_code& ec)
      {
        if (ec)
          return;
        const auto bytes = packet_line(reports_.native_handle()).receive(MSG_DONTWAIT);
        if (!bytes)
          return; // the tracer has ended
        std::memcpy(&report_.emplace(), bytes->data(), sizeof(trace_report));
        wait_for_report();
      });
  }
  void wait_for_text()
  {
    texts_.async_wait(asio::posix::stream_descriptor::wait_read,
      [this](const error_code& ec)
      {
        if (ec)
          return;
        text_ = packet_line(texts_.native_handle()).receive(MSG_DONTWAIT);
        if (text_)
          wait_for_text();
      });
  }

  ends orders_;
  ends line_;
  process tracer_;
  asio::posix::stream_descriptor reports_;
  asio::posix::stream_descriptor texts_;
  std::optional<trace_report> report_;
  std::optional<std::string> text_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_TRACED_PEER_HPP
