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

// Cache of registrations of unregistered user memory, in whole pages, for local use only. Any range
// inside a kept registration finds it, until its memory is unmapped (memory_watch) or it is
// evicted. If memory cannot be watched, each operation has its own registration, because between
// two operations the pages might be replaced by others at the same address.
//
// Kept registrations may overlap, because neighbouring buffers share pages. In each of the two
// sets, no registration contains another. Their ends are therefore in the order of their
// beginnings, and the last one that begins before a range is the only one that can contain it.
//
// The watch's mutex protects everything here except registering and deregistering. memory_watch
// documents the restrictions under that mutex.
class registration_cache final : private watch_client
{
public:
  registration_cache(domain_impl& domain, const registration_cache_options& options);
  ~registration_cache();
  registration_cache(const registration_cache&) = delete;
  registration_cache& operator=(const registration_cache&) = delete;

  // Returns a registration that contains the bytes, with a reference for the caller. `writable`
  // requests access::local_write. Returns null, and sets ec, if the registration fails. A hit
  // allocates no memory. Thread-safe.
  [[nodiscard]] registration* acquire(
    const void* data, std::size_t size, bool writable, error_code& ec) noexcept;

  [[nodiscard]] registration_cache_statistics statistics();

  // Deregisters everything. Precondition: no operation uses any of it.
  void clear() noexcept;

private:
  struct entry;

  struct by_begin
  {
    using type = std::uintptr_t;
    type operator()(const entry& e) const noexcept;
  };
  using set_hook = boost::intrusive::set_base_hook<>;
  struct use_tag;
  using use_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<use_tag>>;
  struct lists;

  memory_watch* watch() noexcept;
  void look_for_watch() noexcept;
  [[nodiscard]] entry* find(const page_range& range, bool writable) const noexcept;
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
  std::string disabled_reason_;
  std::unique_ptr<lists> lists_;
  std::size_t bytes_ = 0; // of the kept entries
  std::size_t entries_ = 0;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
  std::atomic<std::uint64_t> uncached_{0};
  std::atomic<std::uint64_t> evicted_{0};
  std::atomic<std::uint64_t> invalidated_{0};
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_REGISTRATION_CACHE_HPP
