//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/file_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace info {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::size_t file_size_max = std::size_t{1} << 20; // the kernel's files are much smaller

std::string_view trimmed(std::string_view text)
{
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

template <class Number>
std::optional<Number> parsed(std::string_view text)
{
  int base = 10;
  if (text.starts_with("0x"))
  {
    text.remove_prefix(2);
    base = 16;
  }
  Number result{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), result, base);
  if (failure != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return result;
}

} // namespace

fs::path file_tree::path(std::string_view path) const
{
  while (path.starts_with('/'))
    path.remove_prefix(1);
  return root_ / path;
}

reading file_tree::read(std::string_view path) const
{
  // Uses read(2), because some of the kernel's files can be opened but report an error when they
  // are read.
  const auto failed = [&](int error) {
    return reading{std::nullopt, std::string(path) + ": " + std::strerror(error)};
  };
  const int fd = ::open(this->path(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return failed(errno);
  std::string text;
  char part[4096];
  ssize_t n = 0;
  while (text.size() < file_size_max && (n = ::read(fd, part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(n));
  const int error = errno;
  ::close(fd);
  if (n < 0)
    return failed(error);
  return {std::string(trimmed(text)), {}};
}

std::optional<std::uint64_t> file_tree::number(std::string_view path) const
{
  const reading found = read(path);
  return found.text ? parsed<std::uint64_t>(*found.text) : std::nullopt;
}

std::vector<std::string> file_tree::names(std::string_view path) const
{
  std::vector<std::string> result;
  std::error_code ec; // ignored: a directory that cannot be listed counts as empty
  for (fs::directory_iterator each(this->path(path), ec), end; !ec && each != end;
       each.increment(ec))
    result.push_back(each->path().filename().string());
  std::ranges::sort(result);
  return result;
}

bool file_tree::exists(std::string_view path) const
{
  std::error_code ec;
  return fs::exists(this->path(path), ec);
}

std::optional<std::string> file_tree::link_name(std::string_view path) const
{
  std::error_code ec;
  const fs::path target = fs::read_symlink(this->path(path), ec);
  if (ec)
    return std::nullopt;
  return target.filename().string();
}

std::optional<std::string> chosen_word(std::string_view text)
{
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos)
    return std::nullopt;
  return std::string(text.substr(open + 1, close - open - 1));
}

std::optional<std::string> value_of(std::string_view text, std::string_view key)
{
  for (std::size_t at = 0; at < text.size();)
  {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key))
      continue;
    line.remove_prefix(key.size());
    if (line.starts_with(':'))
      line.remove_prefix(1);
    else if (line.find_first_of(blanks) != 0)
      continue; // the key is only a prefix
    return std::string(trimmed(line));
  }
  return std::nullopt;
}

std::vector<unsigned> numbers_of(std::string_view list)
{
  constexpr unsigned numbers_max = 1u << 16;
  std::vector<unsigned> result;
  for (std::string_view rest = trimmed(list); !rest.empty();)
  {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t dash = part.find('-');
    const auto first = parsed<unsigned>(part.substr(0, dash));
    const auto last =
      dash == std::string_view::npos ? first : parsed<unsigned>(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= numbers_max)
      return {};
    for (unsigned i = *first; i <= *last; ++i)
      result.push_back(i);
  }
  return result;
}

} // namespace info
