//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_SHARED_REGION_HPP
#define BOOST_RDMA_TEST_SOFTWARE_SHARED_REGION_HPP

#include "common/shared_bytes.hpp"
#include "software/verbs_fixture.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace test {

/// Registered memory that peers on this host map.
class shared_region
{
public:
  shared_region(const verbs_device& on, std::size_t size)
    : bytes_(size)
    , on_(on)
    , mr_(on.api().reg_mr(on.pd(), bytes_.data(), size, all_access))
  {
    must(mr_ != nullptr, "reg_mr");
  }
  ~shared_region() { deregister(); }
  shared_region(const shared_region&) = delete;
  shared_region& operator=(const shared_region&) = delete;

  void deregister()
  {
    if (mr_ != nullptr)
      on_.api().dereg_mr(std::exchange(mr_, nullptr));
  }

  ibv_mr* mr() const noexcept { return mr_; }
  std::byte* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }
  std::uint64_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(data()); }

  /// Returns the name of an end with this memory.
  end_name named(end_name name) const
  {
    name.address = address();
    name.key = mr_->rkey;
    return name;
  }

private:
  shared_bytes bytes_;
  const verbs_device& on_;
  ibv_mr* mr_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_SHARED_REGION_HPP
