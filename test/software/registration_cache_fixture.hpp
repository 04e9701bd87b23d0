//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_REGISTRATION_CACHE_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_REGISTRATION_CACHE_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "common/sanitizers.hpp"
#include "resource/domain_impl.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <sys/mman.h>

// The cache of registrations of plain memory, used as operations use it.

namespace test {

inline constexpr std::size_t page = 4096;

/// Anonymous memory that is unmapped at the end.
class mapping
{
public:
  explicit mapping(std::size_t pages)
    : size_(pages * page)
    , there_(pages, true)
    , data_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
  {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~mapping()
  {
    for (std::size_t i = 0; i < there_.size(); ++i)
      if (there_[i])
        ::munmap(at(i), page);
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  [[nodiscard]] char* at(std::size_t n) const { return static_cast<char*>(data_) + n * page; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void unmap(std::size_t first, std::size_t pages)
  {
    REQUIRE(::munmap(at(first), pages * page) == 0);
    gone(first, pages);
  }

  /// Records that the pages were unmapped or moved away.
  void gone(std::size_t first, std::size_t pages)
  {
    std::fill_n(there_.begin() + static_cast<std::ptrdiff_t>(first), pages, false);
  }

  /// Maps new memory in a hole. Returns false, with a warning that names the section, if another
  /// thread, of the library or of the sanitizer, has used the hole; the memory is then its own.
  [[nodiscard]] bool map_where_nothing_is(std::size_t first, std::size_t pages)
  {
    void* const made = ::mmap(at(first), pages * page, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made != at(first))
    {
      if (made != MAP_FAILED) // a kernel before Linux 4.17
        ::munmap(made, pages * page);
      WARN("skipped: another thread has mapped memory in the hole at page " << first);
      return false;
    }
    std::fill_n(there_.begin() + static_cast<std::ptrdiff_t>(first), pages, true);
    return true;
  }

  /// Maps new memory over the existing memory at the same address.
  void map_anew(std::size_t first, std::size_t pages) const
  {
    REQUIRE(::mmap(at(first), pages * page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
      == at(first));
  }

private:
  std::size_t size_;
  std::vector<bool> there_; // per page
  void* data_;
};

inline rdma::context context_with(const rdma::registration_cache_options& bounds)
{
  rdma::context_options options;
  options.cache = bounds;
  return make_context(options);
}

struct release
{
  void operator()(rdma::detail::registration* r) const { r->release(); }
};
using held = std::unique_ptr<rdma::detail::registration, release>;

/// A context's cache, used like operations use it.
struct cache_user
{
  explicit cache_user(rdma::registration_cache_options bounds = {})
    : context(context_with(bounds))
  {
  }
  explicit cache_user(rdma::context other)
    : context(std::move(other))
  {
  }

  [[nodiscard]] held acquire(const void* data, std::size_t size, bool writable = true) const
  {
    error_code ec;
    held result(context.impl()->cache().acquire(data, size, writable, ec));
    CHECK(ec == error_code());
    REQUIRE(result);
    return result;
  }
  [[nodiscard]] rdma::registration_cache_statistics statistics() const
  {
    return context.registration_cache_statistics();
  }
  /// Returns true if a lookup of the range is a hit.
  [[nodiscard]] bool finds(const void* data, std::size_t size, bool writable = true) const
  {
    const auto before = statistics().hits;
    const held found = acquire(data, size, writable);
    return statistics().hits != before;
  }

  rdma::context context;
};

} // namespace test

// If memory cannot be watched, nothing is cached; another test covers this.
#define NEEDS_WATCHED_MEMORY(user)                                                                 \
  do                                                                                               \
  {                                                                                                \
    if (const auto s = (user).statistics(); !s.enabled)                                            \
    {                                                                                              \
      WARN("skipped here: " << s.disabled_reason);                                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

#endif // BOOST_RDMA_TEST_SOFTWARE_REGISTRATION_CACHE_FIXTURE_HPP
