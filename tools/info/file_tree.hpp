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

/// Result of reading a file.
struct reading
{
  std::optional<std::string> text; ///< without trailing white space
  std::string why_not; ///< the error if text is empty: "/sys/x: No such file or directory"
};

/// The kernel's files in /proc and /sys: those of this machine, or a copy below another directory.
class file_tree
{
public:
  explicit file_tree(std::filesystem::path root = "/")
    : root_(std::move(root))
  {
  }

  /// Returns true if it is this machine's own tree.
  [[nodiscard]] bool is_own() const { return root_ == "/"; }

  [[nodiscard]] reading read(std::string_view path) const;
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view path) const;

  /// Returns the sorted names in a directory; empty if it does not exist.
  [[nodiscard]] std::vector<std::string> names(std::string_view path) const;

  [[nodiscard]] bool exists(std::string_view path) const;

  /// Returns the last component of a symbolic link's target.
  [[nodiscard]] std::optional<std::string> link_name(std::string_view path) const;

  /// Returns the path to use in system calls.
  [[nodiscard]] std::filesystem::path path(std::string_view path) const;

private:
  std::filesystem::path root_;
};

/// Returns the word in brackets, as in "always [madvise] never".
std::optional<std::string> chosen_word(std::string_view text);

/// Returns the value of a line "Key:   value" or "Key   value", as in /proc/meminfo.
std::optional<std::string> value_of(std::string_view text, std::string_view key);

/// Returns the numbers of a list in the kernel's format: 0, 1, 2, 3, 8 for "0-3,8". Empty if
/// malformed.
std::vector<unsigned> numbers_of(std::string_view list);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_FILE_TREE_HPP
