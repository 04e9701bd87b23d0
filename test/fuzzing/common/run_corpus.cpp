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

// Stands in for libFuzzer where there is none: runs each file that is named, or that lies in a
// directory that is named, through the target once.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::size_t files = 0;

void run_file(const fs::path& path)
{
  std::cout << path.string() << std::endl; // flushed: the target may abort
  std::ifstream in(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in)
    throw std::runtime_error("cannot be read");
  // Of exactly this size, for the address sanitizer to see what is read beyond it.
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
