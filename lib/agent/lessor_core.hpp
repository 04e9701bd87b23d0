//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_LESSOR_CORE_HPP
#define BOOST_RDMA_LIB_AGENT_LESSOR_CORE_HPP

#include "boost_rdma/lessor.hpp"
#include "completion/agent_attachment.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace rdma::detail {

// State shared by all queue pairs of a lessor: the pool, and the total of the granted memory.
class lessor_core final
  : public agent_attachment_source
  , public std::enable_shared_from_this<lessor_core>
{
public:
  lessor_core(const protection_domain& domain, const lessor_options& options);

  std::shared_ptr<agent_attachment> make(const std::shared_ptr<queue_pair_core>& beside) override;

  [[nodiscard]] const lessor_options& options() const noexcept { return options_; }
  [[nodiscard]] const protection_domain& domain() const noexcept { return domain_; }
  [[nodiscard]] memory_pool& pool() noexcept { return pool_; }
  [[nodiscard]] lessor_statistics statistics() const;

  // Returns true if an I/O thread may make and release a lease of that size. That takes
  // milliseconds if much memory is mapped, cleared, registered or unmapped, or if the pool's mutex
  // is held by a thread that does so.
  [[nodiscard]] static bool is_quick(std::size_t size) noexcept;
  // Makes the pool of one peer's quick leases, or of its others, if peers map the memory that they
  // lease: a peer keeps all of an arena mapped. Returns null if they all use pool(). Throws
  // std::bad_alloc.
  [[nodiscard]] std::unique_ptr<memory_pool> make_peer_pool(bool quick) const;

  // Charges one more region of that size. Returns false if the quota does not allow it.
  [[nodiscard]] bool charge(std::size_t bytes) noexcept;
  void refund(std::size_t bytes) noexcept;
  void count_grant() noexcept;
  void count_refusal() noexcept;

private:
  const lessor_options options_;
  const protection_domain domain_;
  memory_pool pool_;
  mutable std::mutex mutex_;
  lessor_statistics granted_;
};

// Holds a charge against a lessor's quotas and one peer's share, and refunds it on destruction.
class lessor_charge
{
public:
  struct peer_share // of one connection; independent of its agent's mutex
  {
    std::mutex mutex;
    std::size_t bytes = 0;
    std::size_t regions = 0;
    std::atomic<std::size_t> releases{0}; // under way on another thread
  };

  lessor_charge() = default;
  // Precondition: both have been charged.
  lessor_charge(
    std::shared_ptr<lessor_core> of, std::shared_ptr<peer_share> share, std::size_t bytes) noexcept
    : lessor_(std::move(of))
    , share_(std::move(share))
    , bytes_(bytes)
  {
  }
  lessor_charge(lessor_charge&&) noexcept = default;
  lessor_charge& operator=(lessor_charge&& other) noexcept
  {
    std::swap(lessor_, other.lessor_);
    std::swap(share_, other.share_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~lessor_charge();

  // Returns an empty charge if a quota does not allow it.
  static lessor_charge take(const std::shared_ptr<lessor_core>& of,
    const std::shared_ptr<peer_share>& share, std::size_t bytes);
  explicit operator bool() const noexcept { return lessor_ != nullptr; }

private:
  std::shared_ptr<lessor_core> lessor_;
  std::shared_ptr<peer_share> share_;
  std::size_t bytes_ = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_LESSOR_CORE_HPP
