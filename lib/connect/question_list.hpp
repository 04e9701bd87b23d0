//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_QUESTION_LIST_HPP
#define BOOST_RDMA_LIB_CONNECT_QUESTION_LIST_HPP

#include "connect/discovery_message.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace rdma::detail {

// The clients that have asked a server for RDMA in the last seconds.
//
// Children of fork() share it: any of the processes may answer, and another one accept. Threads and
// processes use it without locks, as one of them may be killed at any time. An entry that is
// replaced meanwhile is missed or found once too often, which costs a client time, or RDMA.
class question_list
{
public:
  using token_type = discovery_message::token_type;

  // Throws bad_alloc.
  question_list()
  {
    void* const mapped =
      ::mmap(nullptr, sizeof(entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      throw std::bad_alloc();
    shared_ = ::new (mapped) entries;
  }
  question_list(const question_list&) = delete;
  question_list& operator=(const question_list&) = delete;
  ~question_list() { ::munmap(shared_, sizeof(entries)); }

  void add(const token_type& token, const boost::asio::ip::address& from) noexcept
  {
    const std::uint32_t place = shared_->next.fetch_add(1, std::memory_order_relaxed);
    entry& to = shared_->list[place % size];
    to.until.store(0, std::memory_order_relaxed);
    to.token.store(name_of(token), std::memory_order_relaxed);
    to.from.store(name_of(from), std::memory_order_relaxed);
    to.until.store((clock::now() + question_max).time_since_epoch().count());
  }

  // A client with this address has asked, and its connection has not arrived.
  [[nodiscard]] bool contains(const boost::asio::ip::address& from) const noexcept
  {
    const auto now = clock::now().time_since_epoch().count();
    return std::any_of(shared_->list.begin(), shared_->list.end(),
      [now, name = name_of(from)](const entry& each)
      { return each.until.load() >= now && each.from.load(std::memory_order_relaxed) == name; });
  }

  void remove(const token_type& token) noexcept
  {
    for (entry& each : shared_->list)
      if (each.token.load(std::memory_order_relaxed) == name_of(token))
        each.until.store(0, std::memory_order_relaxed);
  }

private:
  using clock = std::chrono::steady_clock;               // the same for all processes
  static constexpr std::chrono::seconds question_max{3}; // from a question to TCP's connection
  static constexpr std::size_t size = 1024;

  struct entry
  {
    std::atomic<clock::rep> until{0}; // since the clock's epoch
    std::atomic<std::uint64_t> token{0};
    std::atomic<std::uint64_t> from{0};
  };
  struct entries
  {
    std::atomic<std::uint32_t> next{0};
    std::array<entry, size> list;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  // The token is random: a part of it is unique as well.
  static std::uint64_t name_of(const token_type& token) noexcept
  {
    std::uint64_t name = 0;
    std::memcpy(&name, token.data(), sizeof name);
    return name;
  }
  // An IPv4 address has one name, also if a socket of IPv6 receives it. Addresses with the same
  // name share their questions.
  static std::uint64_t name_of(const boost::asio::ip::address& address) noexcept
  {
    if (address.is_v4())
      return address.to_v4().to_uint();
    const auto bytes = address.to_v6().to_bytes();
    std::array<std::uint64_t, 2> halves;
    std::memcpy(halves.data(), bytes.data(), sizeof halves);
    if (address.to_v6().is_v4_mapped())
      return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
        .to_uint();
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15; // mixes the halves
    return halves[0] * odd + halves[1];
  }

  entries* shared_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_QUESTION_LIST_HPP
