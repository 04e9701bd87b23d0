//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/settings.hpp"

#include <charconv>
#include <chrono>
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
  std::uint32_t software::device_settings::*member;
};

constexpr std::uint32_t objects_max = 1u << 24;

constexpr number numbers[] = {
  {"BOOST_RDMA_SOFT_MAX_WORK_REQUESTS", 1, 1u << 20, &software::device_settings::max_work_requests},
  {"BOOST_RDMA_SOFT_MAX_SGE", 1, 1024, &software::device_settings::max_sge},
  {"BOOST_RDMA_SOFT_MAX_COMPLETIONS", 1, 1u << 30, &software::device_settings::max_completions},
  {"BOOST_RDMA_SOFT_MAX_INLINE", 0, 1u << 16, &software::device_settings::max_inline_data},
  {"BOOST_RDMA_SOFT_MAX_READ_ATOMIC", 0, 255, &software::device_settings::max_read_atomic},
  {"BOOST_RDMA_SOFT_MAX_QUEUE_PAIRS", 1, objects_max, &software::device_settings::max_queue_pairs},
  {"BOOST_RDMA_SOFT_MAX_COMPLETION_QUEUES", 1, objects_max,
    &software::device_settings::max_completion_queues},
  {"BOOST_RDMA_SOFT_MAX_SHARED_RECEIVE_QUEUES", 1, objects_max,
    &software::device_settings::max_shared_receive_queues},
  {"BOOST_RDMA_SOFT_MAX_PROTECTION_DOMAINS", 1, objects_max,
    &software::device_settings::max_protection_domains},
  {"BOOST_RDMA_SOFT_MAX_MEMORY_REGIONS", 1, objects_max,
    &software::device_settings::max_memory_regions},
  {"BOOST_RDMA_SOFT_MAX_MEMORY_WINDOWS", 1, objects_max,
    &software::device_settings::max_memory_windows},
  {"BOOST_RDMA_SOFT_MAX_ADDRESS_HANDLES", 1, objects_max,
    &software::device_settings::max_address_handles},
};

constexpr const char* devices = "BOOST_RDMA_SOFT_DEVICES";
constexpr const char* share_memory = "BOOST_RDMA_SHARE_MEMORY";          // 0 or 1
constexpr const char* retry_time_min = "BOOST_RDMA_SOFT_RETRY_TIME_MIN"; // milliseconds
constexpr std::uint32_t retry_time_most = 3'600'000;

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

// Sets `to` if the variable is set. Returns what is wrong with it; empty: nothing.
std::string read_number(
  const char* name, std::uint32_t least, std::uint32_t most, std::uint32_t& to)
{
  const char* const text = ::secure_getenv(name);
  if (text == nullptr || *text == '\0')
    return {};
  const std::string_view all(text);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc() || end != all.data() + all.size() || value < least || value > most)
    return std::string(name) + " must be a number from " + std::to_string(least) + " to "
      + std::to_string(most) + ", not '" + text + "'";
  to = value;
  return {};
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
    read.wrong = read_number(n.name, n.least, n.most, read.settings.*n.member);
    if (!read.wrong.empty())
      return read;
  }
  read.wrong = read_number(devices, 1, software::devices_max, read.devices);
  if (!read.wrong.empty())
    return read;
  std::uint32_t shares = 0;
  read.wrong = read_number(share_memory, 0, 1, shares);
  if (!read.wrong.empty())
    return read;
  read.share_memory = shares != 0;
  auto milliseconds = static_cast<std::uint32_t>(read.settings.retry_time_min.count());
  read.wrong = read_number(retry_time_min, 0, retry_time_most, milliseconds);
  read.settings.retry_time_min = std::chrono::milliseconds(milliseconds);
  return read;
}

} // namespace rdma::soft
