//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/listing.hpp"

#include "sockets/system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma::sockets::listing {
namespace {

constexpr int lines_max = 65536; // further connections are not listed
constexpr int lines_step = 256;

// The start of this process distinguishes it from a later one with the same number.
std::string start_time()
{
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The second field is the program's name, which may contain spaces and parentheses.
  std::istringstream fields(text.substr(std::min(text.rfind(')'), text.size())));
  std::string field;
  for (int number = 2; number != 22 && fields >> field; ++number)
    ;
  fields >> field;
  return field;
}

// Returns an empty string if another user has the directory.
std::string make_path()
{
  const std::string directory = "/dev/shm/boost_rdma_sockets." + std::to_string(::geteuid());
  if (::mkdir(directory.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return {};
  struct ::stat made;
  if (::lstat(directory.c_str(), &made) != 0 || !S_ISDIR(made.st_mode) || made.st_uid != ::geteuid()
    || (made.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return {};
  return directory + '/' + std::to_string(::getpid()) + '.' + start_time();
}

class file
{
public:
  int show(int slot, std::string_view line)
  {
    const std::lock_guard lock(mutex_);
    if (slot == -1)
      slot = new_slot();
    if (slot == -1)
      return -1;
    char* const at = lines_ + std::size_t{line_size} * static_cast<unsigned>(slot);
    const std::size_t size = std::min<std::size_t>(line.size(), line_size - 1);
    std::memcpy(at, line.data(), size);
    std::memset(at + size, ' ', line_size - 1 - size);
    at[line_size - 1] = '\n';
    return slot;
  }

  void remove(int slot) noexcept
  {
    const std::lock_guard lock(mutex_);
    if (slot == -1 || lines_ == nullptr)
      return;
    std::memset(lines_ + std::size_t{line_size} * static_cast<unsigned>(slot), ' ', line_size - 1);
    free_.push_back(slot); // never allocates: grow() reserves
  }

  void end() noexcept
  {
    const std::lock_guard lock(mutex_);
    if (lines_ != nullptr)
      ::unlink(path_.c_str());
  }

private:
  int new_slot()
  {
    if (free_.empty() && !grow())
      return -1;
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }

  // The file is opened only here: a program may close all descriptors that it does not know.
  bool grow()
  {
    if (has_failed_ || count_ == lines_max)
      return false;
    has_failed_ = true; // until it has succeeded
    if (path_.empty())
      path_ = make_path();
    if (path_.empty())
      return false;
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd == -1)
      return false;
    // Allocated, because a write to a page that does not fit would raise SIGBUS.
    const bool is_allocated =
      ::posix_fallocate(fd, off_t{line_size} * count_, off_t{line_size} * lines_step) == 0;
    if (is_allocated && lines_ == nullptr)
    {
      void* const mapped = ::mmap(
        nullptr, std::size_t{line_size} * lines_max, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      lines_ = mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
    }
    original::close(fd);
    if (!is_allocated || lines_ == nullptr)
      return false;
    free_.reserve(static_cast<std::size_t>(count_ + lines_step));
    for (int slot = count_ + lines_step; slot-- > count_;)
      free_.push_back(slot);
    count_ += lines_step;
    has_failed_ = false;
    return true;
  }

  std::mutex mutex_;
  std::string path_;
  char* lines_ = nullptr;
  int count_ = 0;
  std::vector<int> free_;
  bool has_failed_ = false;
};

file& the_file()
{
  // Never destroyed: destructors of the program may close connections.
  static file& f = *new file;
  return f;
}

} // namespace

int show(int slot, std::string_view line)
{
  return the_file().show(slot, line);
}

void remove(int slot) noexcept
{
  the_file().remove(slot);
}

void end() noexcept
{
  the_file().end();
}

void after_fork() noexcept
{
  new (&the_file()) file(); // the old one may be invalid
}

} // namespace rdma::sockets::listing
