//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

// Replaces libFuzzer in other builds: runs each named file, and each file of a named directory,
// through the target once.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::size_t files = 0;

void run_file(const fs::path& path)
{
  std::cout << path.string() << std::endl; // flushed because the target may abort
  std::ifstream in(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in)
    throw std::runtime_error("cannot be read");
  // Exactly this size, so that the address sanitizer detects reads beyond it.
  const auto bytes = std::make_unique<std::uint8_t[]>(content.size());
  std::copy(content.begin(), content.end(), bytes.get());
  LLVMFuzzerTestOneInput(bytes.get(), content.size());
  ++files;
}

} // namespace

int main(int argc, char** argv)
{
  try
  {
    for (const fs::path path : std::span(argv, static_cast<std::size_t>(argc)).subspan(1))
      if (!fs::is_directory(path))
        run_file(path);
      else
        for (const auto& entry : fs::directory_iterator(path))
          run_file(entry.path());
  }
  catch (const std::exception& e)
  {
    std::cerr << e.what() << '\n';
    return 1;
  }
  std::cout << files << " files\n";
  return files > 0 ? 0 : 1;
}
