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
#include <dlfcn.h>
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
std::atomic<std::size_t> released{0};
constinit test::call_stack stack; // of the first allocation that was counted or failed
constinit test::fault_counter faults;

// Returns false if the allocation is to fail.
bool note() noexcept
{
  bool is_first = false;
  if (faults.fails(is_first))
  {
    if (is_first)
      stack.record();
    return false;
  }
  // relaxed: a plain counter; its reader has synchronised with the counted threads by other means
  if (!counting.load(std::memory_order_relaxed))
    return true;
  if (count.fetch_add(1, std::memory_order_relaxed) == 0)
    stack.record();
  return true;
}

void note_release(const void* p) noexcept
{
  if (p != nullptr && counting.load(std::memory_order_relaxed))
    released.fetch_add(1, std::memory_order_relaxed);
}

void* no_memory() noexcept
{
  errno = ENOMEM;
  return nullptr;
}

} // namespace

#if BOOST_RDMA_TEST_OWN_MALLOC

// Registers the destructor of a thread_local. glibc ends the process if its own allocation fails.
extern "C" int __cxa_thread_atexit_impl(void (*destroy)(void*), void* object, void* library)
{
  using function = int(void (*)(void*), void*, void*);
  static const auto next =
    reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl"));
  const test::spared_faults own;
  return next(destroy, object, library);
}

// Every allocating function of stdlib.h and malloc.h. operator new calls one of them, too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* __libc_valloc(std::size_t);
void* __libc_pvalloc(std::size_t);
void __libc_free(void*);

void free(void* p)
{
  note_release(p);
  __libc_free(p);
}
void* malloc(std::size_t size)
{
  return note() ? __libc_malloc(size) : no_memory();
}
void* calloc(std::size_t n, std::size_t size)
{
  return note() ? __libc_calloc(n, size) : no_memory();
}
void* realloc(void* p, std::size_t size)
{
  if (!note())
    return no_memory();
  note_release(p);
  return __libc_realloc(p, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size)
{
  return note() ? __libc_memalign(alignment, size) : no_memory();
}
void* memalign(std::size_t alignment, std::size_t size)
{
  return note() ? __libc_memalign(alignment, size) : no_memory();
}
int posix_memalign(void** to, std::size_t alignment, std::size_t size)
{
  if (!note())
    return ENOMEM;
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
  return note() ? __libc_valloc(size) : no_memory();
}
void* pvalloc(std::size_t size)
{
  return note() ? __libc_pvalloc(size) : no_memory();
}
void* reallocarray(void* p, std::size_t n, std::size_t size)
{
  if (!note())
    return no_memory();
  if (size != 0 && n > std::numeric_limits<std::size_t>::max() / size)
  {
    errno = ENOMEM;
    return nullptr;
  }
  note_release(p);
  return __libc_realloc(p, n * size);
}
}

#else

// All forms are replaced: the sanitizers' own do not call each other.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept
{
  return note() ? std::malloc(size != 0 ? size : 1) : no_memory();
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept
{
  if (!note())
    return no_memory();
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
  note_release(p);
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept
{
  ::operator delete(p);
}
void operator delete(void* p, std::align_val_t) noexcept
{
  ::operator delete(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept
{
  ::operator delete(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept
{
  ::operator delete(p);
}
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept
{
  ::operator delete(p);
}
void operator delete[](void* p) noexcept
{
  ::operator delete(p);
}
void operator delete[](void* p, std::size_t) noexcept
{
  ::operator delete(p);
}
void operator delete[](void* p, std::align_val_t) noexcept
{
  ::operator delete(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept
{
  ::operator delete(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept
{
  ::operator delete(p);
}
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept
{
  ::operator delete(p);
}

#endif

namespace test {

allocation_count::allocation_count() noexcept
{
  stack.prepare();
  count.store(0, std::memory_order_relaxed);
  released.store(0, std::memory_order_relaxed);
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

std::ptrdiff_t allocation_count::kept() const noexcept
{
  return static_cast<std::ptrdiff_t>(value())
    - static_cast<std::ptrdiff_t>(released.load(std::memory_order_relaxed));
}

bool allocation_count::sees_malloc() noexcept
{
  return BOOST_RDMA_TEST_OWN_MALLOC != 0;
}

std::string first_stack()
{
  return stack.text();
}

failing_allocations::failing_allocations(std::size_t n, bool lasting) noexcept
  : injected_faults((stack.prepare(), faults), n, lasting)
{
}

} // namespace test
