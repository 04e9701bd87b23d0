//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/sanitizers.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <execinfo.h>
#include <limits>
#include <new>

#if !BOOST_RDMA_TEST_ADDRESS_SANITIZER && !BOOST_RDMA_TEST_THREAD_SANITIZER && defined(__GLIBC__)
#define BOOST_RDMA_TEST_OWN_MALLOC 1
#else
#define BOOST_RDMA_TEST_OWN_MALLOC 0
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> count{0};
void* frames[24];
std::atomic<int> frame_count{0};

void note() noexcept
{
  // relaxed: a plain counter; its reader has synchronised with the counted threads by other means
  if (!counting.load(std::memory_order_relaxed))
    return;
  if (count.fetch_add(1, std::memory_order_relaxed) == 0)
    frame_count.store(::backtrace(frames, 24), std::memory_order_relaxed);
}

} // namespace

#if BOOST_RDMA_TEST_OWN_MALLOC

// Every allocating function of stdlib.h and malloc.h. operator new calls one of them, too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* __libc_valloc(std::size_t);
void* __libc_pvalloc(std::size_t);

void* malloc(std::size_t size)
{
  note();
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size)
{
  note();
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t size)
{
  note();
  return __libc_realloc(p, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size)
{
  note();
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size)
{
  note();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t size)
{
  note();
  if (alignment % sizeof(void*) != 0 || !std::has_single_bit(alignment))
    return EINVAL;
  void* p = __libc_memalign(alignment, size);
  if (p == nullptr)
    return ENOMEM;
  *to = p;
  return 0;
}
void* valloc(std::size_t size)
{
  note();
  return __libc_valloc(size);
}
void* pvalloc(std::size_t size)
{
  note();
  return __libc_pvalloc(size);
}
void* reallocarray(void* p, std::size_t n, std::size_t size)
{
  note();
  if (size != 0 && n > std::numeric_limits<std::size_t>::max() / size)
  {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_realloc(p, n * size);
}
}

#else

// All forms are replaced: the sanitizers' own do not call each other.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept
{
  note();
  return std::malloc(size != 0 ? size : 1);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept
{
  note();
  const auto align = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(align, (size + align - 1) / align * align);
}
void* operator new(std::size_t size)
{
  if (void* p = ::operator new(size, std::nothrow))
    return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment)
{
  if (void* p = ::operator new(size, alignment, std::nothrow))
    return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size)
{
  return ::operator new(size);
}
void* operator new[](std::size_t size, std::align_val_t alignment)
{
  return ::operator new(size, alignment);
}
void* operator new[](std::size_t size, const std::nothrow_t& how) noexcept
{
  return ::operator new(size, how);
}
void* operator new[](
  std::size_t size, std::align_val_t alignment, const std::nothrow_t& how) noexcept
{
  return ::operator new(size, alignment, how);
}
void operator delete(void* p) noexcept
{
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept
{
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept
{
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept
{
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept
{
  std::free(p);
}
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept
{
  std::free(p);
}
void operator delete[](void* p) noexcept
{
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept
{
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept
{
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept
{
  std::free(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept
{
  std::free(p);
}
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept
{
  std::free(p);
}

#endif

namespace test {

allocation_count::allocation_count() noexcept
{
  void* first[1];
  ::backtrace(first, 1); // the first call of backtrace() allocates
  frame_count.store(0, std::memory_order_relaxed);
  count.store(0, std::memory_order_relaxed);
  counting.store(true, std::memory_order_seq_cst);
}

allocation_count::~allocation_count()
{
  stop();
}

void allocation_count::stop() noexcept
{
  counting.store(false, std::memory_order_seq_cst);
}

std::size_t allocation_count::value() const noexcept
{
  return count.load(std::memory_order_relaxed);
}

bool allocation_count::sees_malloc() noexcept
{
  return BOOST_RDMA_TEST_OWN_MALLOC != 0;
}

std::string allocation_count::first()
{
  const int n = frame_count.load(std::memory_order_relaxed);
  std::string result;
  char** names = ::backtrace_symbols(frames, n);
  for (int i = 0; names != nullptr && i < n; ++i)
    result += std::string(names[i]) + "\n";
  std::free(names);
  return result;
}

} // namespace test
