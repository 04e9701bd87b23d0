//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/sanitizers.hpp"

#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace {

using answers = std::map<std::string, std::string>;

constexpr char program[] = BOOST_RDMA_TEST_PROGRAMS "/print_system_library";

// Returns the output of print_system_library, or of a copy of it, started with these environment
// settings (shell syntax).
answers ask(const std::string& settings, const std::string& path = program)
{
  const std::string command = "env " + settings + " '" + path + "' </dev/null";
  std::FILE* output = ::popen(command.c_str(), "r");
  if (output == nullptr)
    throw std::runtime_error("cannot start " + command);
  answers result;
  std::array<char, 16384> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr)
  {
    std::string text = line.data();
    if (!text.empty() && text.back() == '\n')
      text.pop_back();
    const std::size_t mark = text.find('=');
    if (mark != std::string::npos)
      result[text.substr(0, mark)] = text.substr(mark + 1);
  }
  result["status"] = std::to_string(::pclose(output));
  return result;
}

bool contains(const std::string& text, const std::string& part)
{
  return text.find(part) != std::string::npos;
}

// A copy of a test program that runs as another user, whoever starts it.
class set_user_id_program
{
public:
  explicit set_user_id_program(const char* from)
  {
    namespace fs = std::filesystem;
    constexpr uid_t nobody = 65534;
    std::string name = "/tmp/boost_rdma_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no directory in /tmp");
    directory_ = name;
    path_ = name + "/program";
    fs::permissions(directory_, fs::perms(0755));
    fs::copy_file(from, path_);
    possible_ = ::chown(path_.c_str(), nobody, static_cast<gid_t>(-1)) == 0
      && ::chmod(path_.c_str(), S_ISUID | 0755) == 0;
  }
  ~set_user_id_program()
  {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  set_user_id_program(const set_user_id_program&) = delete;
  set_user_id_program& operator=(const set_user_id_program&) = delete;

  // Returns false if this process may not make one.
  [[nodiscard]] bool possible() const noexcept { return possible_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
  std::string directory_;
  std::string path_;
  bool possible_ = false;
};

} // namespace

TEST_CASE("a set-user-ID program ignores the environment's choice of libraries")
{
  const set_user_id_program elevated(program);
  if (!elevated.possible())
  {
    WARN("skipped here: only root can give a program to another user");
    return;
  }
  const answers found = ask(
    "BOOST_RDMA_LIBIBVERBS=/nowhere/verbs.so BOOST_RDMA_LIBRDMACM=/nowhere/cm.so", elevated.path());
#if !BOOST_RDMA_TEST_ADDRESS_SANITIZER
  // LeakSanitizer traces its own process at the end, which the kernel forbids for a set-user-ID
  // program: that process has printed its answers and then fails.
  REQUIRE(found.at("status") == "0");
#endif
  if (found.at("secure") == "0")
  {
    WARN("skipped here: set-user-ID has no effect (nosuid, or no_new_privs)");
    return;
  }
  for (const auto& [name, value] : found)
  {
    CAPTURE(name, value);
    CHECK_FALSE(contains(value, "/nowhere/"));
  }
}

TEST_CASE("the system's libibverbs provides the whole function table")
{
  void* installed = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (installed == nullptr)
  {
    answers found = ask("-u BOOST_RDMA_LIBIBVERBS");
    CHECK(found["functions"] == "none");
    CHECK(contains(found["reason"], "libibverbs1")); // the package to install
    return;
  }
  ::dlclose(installed);

  answers found = ask("-u BOOST_RDMA_LIBIBVERBS");
  CHECK(found["status"] == "0");
  CHECK(found["functions"] == "all");
  CHECK(found["reason"].empty());
  CHECK(contains(found["path"], "libibverbs.so.1"));
  CHECK(found["success"] == "success");
}

TEST_CASE("an empty BOOST_RDMA_LIBIBVERBS disables the system's devices and the reason names it")
{
  answers found = ask("BOOST_RDMA_LIBIBVERBS=");
  CHECK(found["status"] == "0");
  CHECK(found["functions"] == "none");
  CHECK(found["path"].empty());
  CHECK(contains(found["reason"], "BOOST_RDMA_LIBIBVERBS is set to an empty value"));
}

TEST_CASE("the reason names a libibverbs that does not exist")
{
  answers found = ask("BOOST_RDMA_LIBIBVERBS=/nowhere/libibverbs.so.1");
  CHECK(found["status"] == "0");
  CHECK(found["functions"] == "none");
  CHECK(contains(found["reason"], "cannot load /nowhere/libibverbs.so.1"));
}

TEST_CASE("the reason names a libibverbs that is not a library")
{
  const std::string file = "/tmp/boost_rdma_not_a_library_" + std::to_string(::getpid());
  std::ofstream(file) << "not a library\n";
  answers found = ask("BOOST_RDMA_LIBIBVERBS=" + file);
  ::unlink(file.c_str());
  CHECK(found["status"] == "0");
  CHECK(found["functions"] == "none");
  CHECK(contains(found["reason"], "cannot load " + file));
}

TEST_CASE("the reason names the functions that a libibverbs lacks")
{
  answers found = ask("BOOST_RDMA_LIBIBVERBS=libc.so.6");
  CHECK(found["status"] == "0");
  CHECK(found["functions"] == "none");
  CHECK(contains(found["path"], "libc.so.6"));
  CHECK(contains(found["reason"], "it lacks ibv_get_device_list, "));
  CHECK(contains(found["reason"], "ibv_event_type_str"));
}

TEST_CASE(
  "the system's librdmacm provides the whole function table or the reason names the package")
{
  void* installed = ::dlopen("librdmacm.so.1", RTLD_LAZY | RTLD_LOCAL);
  answers found = ask("-u BOOST_RDMA_LIBRDMACM");
  CHECK(found["status"] == "0");
  if (installed == nullptr)
  {
    CHECK(found["cm_functions"] == "none");
    CHECK(contains(found["cm_reason"], "librdmacm1")); // the package to install
    return;
  }
  ::dlclose(installed);
  CHECK(found["cm_functions"] == "all");
  CHECK(found["cm_reason"].empty());
  CHECK(contains(found["cm_path"], "librdmacm.so.1"));
}

TEST_CASE("the reason names an unusable librdmacm and libibverbs works without it")
{
  answers found = ask("BOOST_RDMA_LIBRDMACM=/nowhere/librdmacm.so.1");
  CHECK(found["status"] == "0");
  CHECK(found["cm_functions"] == "none");
  CHECK(contains(found["cm_reason"], "cannot load /nowhere/librdmacm.so.1"));
  CHECK(found["functions"] == ask("-u BOOST_RDMA_LIBRDMACM")["functions"]);

  found = ask("BOOST_RDMA_LIBRDMACM=libc.so.6");
  CHECK(found["cm_functions"] == "none");
  CHECK(contains(found["cm_reason"], "it lacks rdma_create_event_channel, "));
}
