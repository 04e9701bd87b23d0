//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/report.hpp"

#include "sockets/address.hpp"
#include "sockets/listing.hpp"
#include "sockets/settings.hpp"
#include "sockets/system.hpp"
#include "sockets/table.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace rdma::sockets::report {
namespace {

// The lines for standard error, which are written when the process ends.
struct kept_lines
{
  static constexpr std::size_t size_max = 1u << 20;

  std::mutex mutex;
  std::string text;
  std::size_t left_out = 0;
};

kept_lines& kept()
{
  // Never destroyed: destructors of the program may close connections.
  static kept_lines& lines = *new kept_lines;
  return lines;
}

std::string line_of(const description& d, int fd)
{
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size);
  return std::to_string(::getpid()) + ' ' + the_settings().program + ' '
    + text_of(reinterpret_cast<const sockaddr&>(local)) + ' '
    + text_of(reinterpret_cast<const sockaddr&>(d.peer)) + ' ' + d.connection->describe();
}

void write_line(std::string line)
{
  line += '\n';
  if (the_settings().report == "-")
  {
    kept_lines& lines = kept();
    const std::lock_guard lock(lines.mutex);
    if (lines.text.size() < kept_lines::size_max)
      lines.text += line;
    else
      ++lines.left_out;
    return;
  }
  const int file = ::open(
    the_settings().report.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  if (file == -1)
    return;
  [[maybe_unused]] const ssize_t written = original::write(file, line.data(), line.size());
  original::close(file);
}

// The process that decided reports the connection, not others that inherited it.
bool is_reported(const description& d) noexcept
{
  return d.connection && d.used_by == ::getpid();
}

void end(description& d, int fd)
{
  if (!is_reported(d))
    return;
  if (!the_settings().report.empty())
    write_line(line_of(d, fd));
  listing::remove(d.slot.exchange(-1));
}

} // namespace

void changed(description& d) noexcept
{
  guarded<int>(
    [&]
    {
      if (is_reported(d))
        d.slot = listing::show(d.slot, line_of(d, table::descriptor_of(d)));
      return 0;
    });
}

void closing(description& d, int fd) noexcept
{
  guarded<int>(
    [&]
    {
      end(d, fd);
      return 0;
    });
}

void finish() noexcept
{
  static std::atomic<bool> is_finished{false};
  if (is_finished.exchange(true))
    return;
  guarded<int>(
    [&]
    {
      for (const std::shared_ptr<description>& d : table::all())
        end(*d, table::descriptor_of(*d));
      listing::end();
      kept_lines& lines = kept();
      const std::lock_guard lock(lines.mutex);
      if (lines.left_out != 0)
        lines.text += "rdma_sockets: " + std::to_string(lines.left_out) + " more connections\n";
      [[maybe_unused]] const ssize_t written =
        original::write(STDERR_FILENO, lines.text.data(), lines.text.size());
      return 0;
    });
}

void after_fork() noexcept
{
  new (&kept()) kept_lines(); // another thread of the parent may have held the mutex
  listing::after_fork();
}

} // namespace rdma::sockets::report
