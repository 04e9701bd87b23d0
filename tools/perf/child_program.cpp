//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/child_program.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace perf {
namespace {

[[noreturn]] void fail(int error, const std::string& what)
{
  throw std::system_error(error, std::generic_category(), what);
}

// Binds this thread and the programs that it starts to one processor during its lifetime.
class on_processor
{
public:
  explicit on_processor(std::optional<unsigned> processor)
    : changed_(processor.has_value())
  {
    if (!changed_)
      return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(*processor % CPU_SETSIZE, &only);
    if (::sched_getaffinity(0, sizeof(before_), &before_) != 0
      || ::sched_setaffinity(0, sizeof(only), &only) != 0)
      fail(errno, "sched_setaffinity");
  }
  on_processor(const on_processor&) = delete;
  on_processor& operator=(const on_processor&) = delete;
  ~on_processor()
  {
    if (changed_)
      ::sched_setaffinity(0, sizeof(before_), &before_);
  }

private:
  bool changed_;
  cpu_set_t before_{};
};

} // namespace

std::string find_program(const std::string& name)
{
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "");
  for (std::string each; std::getline(directories, each, ':');)
    if (const std::string file = each + '/' + name; ::access(file.c_str(), X_OK) == 0)
      return file;
  return {};
}

unsigned free_port()
{
  boost::asio::io_context io;
  using boost::asio::ip::tcp;
  return tcp::acceptor(io, {tcp::v4(), 0}).local_endpoint().port();
}

child_program::child_program(const std::vector<std::string>& arguments,
  const std::vector<variable>& environment, std::optional<unsigned> processor)
{
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::ranges::none_of(environment,
          [&](const variable& other) { return std::string(*each).starts_with(other.first + '='); }))
      variables.emplace_back(*each);
  for (const variable& each : environment)
    variables.push_back(each.first + '=' + each.second);
  const auto pointers = [](const std::vector<std::string>& texts)
  {
    std::vector<char*> result;
    for (const std::string& each : texts)
      result.push_back(const_cast<char*>(each.c_str())); // execve requires char*; never written to
    result.push_back(nullptr);
    return result;
  };
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(errno, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  // A process group of its own, so that grandchildren are killed as well.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  // If this process is killed, its children must end too (PR_SET_PDEATHSIG, which posix_spawn does
  // not support).
  std::vector<std::string> command;
  if (!find_program("setpriv").empty())
    command = {"setpriv", "--pdeathsig", "KILL", "--"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  int error = 0;
  {
    const on_processor here(processor);
    error = ::posix_spawnp(&id_, command.front().c_str(), &actions, &attributes,
      pointers(command).data(), pointers(variables).data());
  }
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  descriptor_ = ends[0];
  if (error != 0)
  {
    ::close(descriptor_);
    fail(error, command.front());
  }
}

child_program::~child_program()
{
  if (id_ > 0)
  {
    ::kill(-id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  ::close(descriptor_);
}

// Returns false at the end of the output, or after the deadline.
bool child_program::read_more(std::chrono::steady_clock::time_point deadline)
{
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
    deadline - std::chrono::steady_clock::now());
  pollfd waited{descriptor_, POLLIN, 0};
  if (left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) <= 0)
    return false;
  std::array<char, 4096> text;
  const ssize_t count = ::read(descriptor_, text.data(), text.size());
  if (count <= 0)
    return false;
  output_.append(text.data(), static_cast<std::size_t>(count));
  return true;
}

bool child_program::wait_for_text(const std::string& text, std::chrono::milliseconds limit)
{
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (output_.find(text) == std::string::npos)
    if (!read_more(deadline))
      return false;
  return true;
}

bool child_program::wait(std::chrono::milliseconds limit)
{
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (read_more(deadline))
    ;
  if (id_ > 0 && std::chrono::steady_clock::now() < deadline)
  {
    // The output has ended, so the process has ended or is about to.
    if (::waitpid(id_, &status_, 0) != id_)
      return false;
    id_ = -1;
  }
  return id_ < 0 && status_ == 0;
}

} // namespace perf
