//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_FILE_TREE_HPP
#define BOOST_RDMA_TOOLS_INFO_FILE_TREE_HPP

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace info {

/// What came of reading a file.
struct reading
{
  std::optional<std::string> text; ///< without the blanks at its end
  std::string why_not;             ///< where there is none: "/sys/x: No such file or directory"
};

/// The kernel's files, /proc and /sys: this machine's, or a copy of them below another directory.
class file_tree
{
public:
  explicit file_tree(std::filesystem::path root = "/")
    : root_(std::move(root))
  {
  }

  /// Whether it is this machine's own.
  [[nodiscard]] bool is_own() const { return root_ == "/"; }

  [[nodiscard]] reading read(std::string_view path) const;
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view path) const;

  /// Names in a directory, sorted; none where there is no such directory.
  [[nodiscard]] std::vector<std::string> names(std::string_view path) const;

  [[nodiscard]] bool exists(std::string_view path) const;

  /// The last part of where a symbolic link leads.
  [[nodiscard]] std::optional<std::string> link_name(std::string_view path) const;

  /// Where a path of this tree is, for system calls.
  [[nodiscard]] std::filesystem::path path(std::string_view path) const;

private:
  std::filesystem::path root_;
};

/// The word in brackets of "always [madvise] never", as the kernel shows a choice.
std::optional<std::string> chosen_word(std::string_view text);

/// The value of a line "Key:   value" or "Key   value", as in /proc/meminfo and /proc/self/status.
std::optional<std::string> value_of(std::string_view text, std::string_view key);

/// The numbers of a list as the kernel writes it: "0-3,8" is 0, 1, 2, 3, 8. Empty where it cannot
/// be read.
std::vector<unsigned> numbers_of(std::string_view list);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_FILE_TREE_HPP
