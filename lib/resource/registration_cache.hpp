//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_REGISTRATION_CACHE_HPP
#define BOOST_RDMA_LIB_RESOURCE_REGISTRATION_CACHE_HPP

#include "boost_rdma/error.hpp"
#include "boost_rdma/registration_cache.hpp"
#include "resource/memory_watch.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace rdma::detail {

class domain_impl;

// Registrations of plain memory, by whole pages, for local use only. One that is kept is found
// again by every range inside it, until its memory goes (memory_watch), or until it makes room.
// Where memory cannot be watched, a registration is its operation's alone: between two operations
// its pages might be given back and others taken at the same address.
//
// Kept registrations may overlap, as the pages of neighbouring buffers do, but in each of the two
// sets none lies inside another. So their ends are in the order of their beginnings, and the last
// that begins before a range is the only one that can hold it.
//
// Everything here is under the watch's mutex, but for registering and deregistering: see
// memory_watch for what must not happen under it.
class registration_cache final : private watch_client
{
public:
  registration_cache(domain_impl& domain, const registration_cache_options& options);
  ~registration_cache();
  registration_cache(const registration_cache&) = delete;
  registration_cache& operator=(const registration_cache&) = delete;

  // A registration that holds the bytes, with a reference for the caller; for writing, with
  // access::local_write. Null, and ec, when they cannot be registered. Takes nothing from the heap
  // when it is found. Thread-safe.
  [[nodiscard]] registration* acquire(
    const void* data, std::size_t size, bool writable, error_code& ec) noexcept;

  [[nodiscard]] registration_cache_statistics statistics();

  // Deregisters everything. No operation may use any of it.
  void clear() noexcept;

private:
  struct entry;

  enum class set_kind : std::uint8_t
  {
    readable,
    writable,
  };

  struct by_begin
  {
    using type = std::uintptr_t;
    type operator()(const entry& e) const noexcept;
  };
  using set_hook = boost::intrusive::set_base_hook<>;
  struct use_tag;
  using use_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<use_tag>>;
  struct lists;

  static void destroy_entry(registration* r) noexcept;

  memory_watch* watch() noexcept;
  void look_for_watch() noexcept;
  [[nodiscard]] entry* find(const page_range& range, bool writable) const noexcept;
  std::unique_ptr<entry> make(const page_range& range, bool writable, error_code& ec);
  [[nodiscard]] bool start_watching(entry& made) noexcept;
  [[nodiscard]] bool may_fit(const entry& made) const noexcept;
  void keep(entry& made, registration_list& replaced) noexcept;
  void take_out(entry& kept) noexcept;
  bool evict_one(registration_list& evicted) noexcept;
  bool give_back_unused() noexcept;
  static void release_all(registration_list& list) noexcept;

  void forget(const page_range& range, bool gone) noexcept override;
  [[nodiscard]] std::uintptr_t covered_until(std::uintptr_t position) const noexcept override;
  [[nodiscard]] std::uintptr_t next_begin(std::uintptr_t position) const noexcept override;
  void give_up_unused(registration_list& to) noexcept override;

  domain_impl& domain_;
  const registration_cache_options options_;
  const process_mark process_;
  std::once_flag looked_;
  std::shared_ptr<memory_watch> watch_;
  std::string why_not_;
  std::unique_ptr<lists> lists_;
  std::size_t bytes_ = 0; // kept
  std::size_t entries_ = 0;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
  std::atomic<std::uint64_t> unkept_{0};
  std::atomic<std::uint64_t> evicted_{0};
  std::atomic<std::uint64_t> invalidated_{0};
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_REGISTRATION_CACHE_HPP
