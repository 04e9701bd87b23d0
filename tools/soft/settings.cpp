//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/settings.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace rdma::soft {
namespace {

struct number
{
  const char* name;
  std::uint32_t least;
  std::uint32_t most;
  std::uint32_t software::device_settings::*member; ///< null: environment::share_memory
};

constexpr number numbers[] = {
  {"BOOST_RDMA_SHARE_MEMORY", 0, 1, nullptr},
  {"BOOST_RDMA_SOFT_MAX_WORK_REQUESTS", 1, 1u << 20, &software::device_settings::max_work_requests},
  {"BOOST_RDMA_SOFT_MAX_SGE", 1, 1024, &software::device_settings::max_sge},
  {"BOOST_RDMA_SOFT_MAX_COMPLETIONS", 1, 1u << 30, &software::device_settings::max_completions},
  {"BOOST_RDMA_SOFT_MAX_INLINE", 0, 1u << 16, &software::device_settings::max_inline_data},
  {"BOOST_RDMA_SOFT_MAX_READ_ATOMIC", 0, 255, &software::device_settings::max_read_atomic},
};

// Splits "a,b". An empty part is kept, and reported later as an invalid address.
std::vector<std::string> split(std::string_view text)
{
  std::vector<std::string> parts;
  for (;;)
  {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos)
      return parts;
    text.remove_prefix(comma + 1);
  }
}

} // namespace

environment read_environment()
{
  environment read;
  if (const char* addresses = ::secure_getenv("BOOST_RDMA_SOFT_ADDRESSES");
      addresses != nullptr && *addresses != '\0')
    read.settings.addresses = split(addresses);
  for (const number& n : numbers)
  {
    const char* const text = ::secure_getenv(n.name);
    if (text == nullptr || *text == '\0')
      continue;
    const std::string_view all(text);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
    if (error != std::errc() || end != all.data() + all.size() || value < n.least || value > n.most)
    {
      read.wrong = std::string(n.name) + " must be a number from " + std::to_string(n.least)
        + " to " + std::to_string(n.most) + ", not '" + text + "'";
      return read;
    }
    if (n.member != nullptr)
      read.settings.*n.member = value;
    else
      read.share_memory = value != 0;
  }
  return read;
}

} // namespace rdma::soft
