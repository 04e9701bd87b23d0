//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "tools/fake_tree.hpp"

#include "info/file_tree.hpp"

// Tests the reading of the kernel's files.

TEST_CASE("read removes trailing blanks and reports the reason when a file cannot be read")
{
  test::fake_tree tree;
  tree.write("/sys/x", "  4096 \n");
  const info::file_tree files(tree.root());
  CHECK(files.read("/sys/x").text == "4096");
  CHECK(files.number("/sys/x") == 4096u);
  const info::reading missing = files.read("/sys/y");
  CHECK_FALSE(missing.text.has_value());
  CHECK(missing.why_not == "/sys/y: No such file or directory");
  CHECK(files.read("/sys").why_not == "/sys: Is a directory");
}

TEST_CASE("number returns a value only when the whole file is a number")
{
  test::fake_tree tree;
  tree.write("/a", "0x1f").write("/b", "12 apples").write("/c", "-1").write("/d", "");
  const info::file_tree files(tree.root());
  CHECK(files.number("/a") == 31u);
  CHECK_FALSE(files.number("/b").has_value());
  CHECK_FALSE(files.number("/c").has_value());
  CHECK_FALSE(files.number("/d").has_value());
}

TEST_CASE("numbers_of parses processor lists with ranges and rejects invalid ones")
{
  using numbers = std::vector<unsigned>;
  CHECK(info::numbers_of("0-3,8,10-11\n") == numbers{0, 1, 2, 3, 8, 10, 11});
  CHECK(info::numbers_of("5") == numbers{5});
  CHECK(info::numbers_of("").empty());
  CHECK(info::numbers_of("3-1").empty());
  CHECK(info::numbers_of("0-").empty());
  CHECK(info::numbers_of("0-4294967295").empty());
  CHECK(info::numbers_of("many").empty());
}

TEST_CASE("value_of finds a value by its whole key")
{
  constexpr char text[] =
    "CapEffective:\t1\nCapEff:\t00ff\nMax open files            20000    20000    files";
  CHECK(info::value_of(text, "CapEff") == "00ff");
  CHECK(info::value_of(text, "Max open files") == "20000    20000    files");
  CHECK_FALSE(info::value_of(text, "CapBnd").has_value());
  CHECK(info::chosen_word("always [madvise] never") == "madvise");
  CHECK_FALSE(info::chosen_word("always madvise").has_value());
  CHECK_FALSE(info::chosen_word("] [").has_value());
}

TEST_CASE("version_of_library returns the rdma-core version in the file name")
{
  CHECK(info::version_of_library("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0") == "44.0");
  CHECK(info::version_of_library("/usr/lib/librdmacm.so.1.3.50.0") == "50.0");
  CHECK(info::version_of_library("/opt/libibverbs.so.1").empty());
  CHECK(info::version_of_library("/opt/mine.so").empty());
}
