//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_MEMORY_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_MEMORY_HPP

#include "verbs/software/memory/key_table.hpp"
#include "verbs/software/memory/moved_pages.hpp"
#include "verbs/software/protocol/work_queue.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::software {

struct thread_domain : ibv_td
{
  std::atomic<std::uint32_t> users{0}; ///< parent domains
};

/// A protection domain, or a parent domain: a further name of one (ibv_alloc_parent_domain(3)).
struct protection_domain : ibv_pd
{
  std::atomic<std::uint32_t> users{0}; ///< parent domains and everything that is created in one

  // Only a parent domain has these.
  protection_domain* parent_of = nullptr; ///< null: this is a protection domain
  thread_domain* thread = nullptr;        ///< or null
  protocol::queue_memory memory;          ///< or no functions
  const protocol::queue_memory* queues() const noexcept
  {
    return memory.allocate != nullptr ? &memory : nullptr;
  }
};

/// Returns the protection domain that objects must share; for a parent domain that is another one.
inline const ibv_pd* protecting(const ibv_pd* pd) noexcept
{
  const auto* domain = static_cast<const protection_domain*>(pd);
  while (domain->parent_of != nullptr)
    domain = domain->parent_of;
  return domain;
}

/// The mapped pages of a DMA buffer.
struct buffer_mapping
{
  buffer_mapping(void* at, std::size_t mapped) noexcept
    : memory(at)
    , size(mapped)
  {
  }
  ~buffer_mapping();
  buffer_mapping(const buffer_mapping&) = delete;
  buffer_mapping& operator=(const buffer_mapping&) = delete;

  void* const memory;
  const std::size_t size;
};

struct memory_region : ibv_mr
{
  key_slot* slot = nullptr;
  std::unique_ptr<moved_pages> moved;     ///< null unless the device moves pages
  std::unique_ptr<buffer_mapping> buffer; ///< of a DMA buffer, otherwise null
};

struct memory_window : ibv_mw
{
  key_slot* slot = nullptr;
  std::uint32_t first_key = 0; ///< its keys differ from it in the low 8 bits only
};

ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access);
ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access);
ibv_mr* reg_mr_iova2(
  ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access);
/// Maps the DMA buffer. Its exporter must permit that; otherwise errno is that of mmap(2).
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
  int descriptor, int access);
/// The keys change if the translation changes. Not for DMA buffers (EOPNOTSUPP).
int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access);
int dereg_mr(ibv_mr* mr);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_MEMORY_HPP
