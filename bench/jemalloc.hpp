//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_JEMALLOC_HPP
#define BOOST_RDMA_BENCH_JEMALLOC_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/protection_domain.hpp>

#include <cstddef>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include <dlfcn.h>
#include <sys/mman.h>

// jemalloc, loaded beside the process's own malloc without exporting its symbols, and one of its
// arenas whose memory is registered.

namespace bench {

/// extent_hooks_t of jemalloc 5 (jemalloc(3), "arena.<i>.extent_hooks").
struct extent_hooks
{
  void* (*alloc)(extent_hooks*, void* at, std::size_t, std::size_t alignment, bool* zero,
    bool* commit, unsigned);
  bool (*dalloc)(extent_hooks*, void*, std::size_t, bool, unsigned);
  void (*destroy)(extent_hooks*, void*, std::size_t, bool, unsigned);
  bool (*commit)(extent_hooks*, void*, std::size_t, std::size_t, std::size_t, unsigned);
  bool (*decommit)(extent_hooks*, void*, std::size_t, std::size_t, std::size_t, unsigned);
  bool (*purge_lazy)(extent_hooks*, void*, std::size_t, std::size_t, std::size_t, unsigned);
  bool (*purge_forced)(extent_hooks*, void*, std::size_t, std::size_t, std::size_t, unsigned);
  bool (*split)(extent_hooks*, void*, std::size_t, std::size_t, std::size_t, bool, unsigned);
  bool (*merge)(extent_hooks*, void*, std::size_t, void*, std::size_t, bool, unsigned);
};

class jemalloc
{
public:
  jemalloc()
  {
    handle_ = ::dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
    {
      missing_ = ::dlerror();
      return;
    }
    find(malloc, "malloc");
    find(free, "free");
    find(mallocx, "mallocx");
    find(sdallocx, "sdallocx");
    find(mallctl, "mallctl");
    const char* text = nullptr;
    std::size_t size = sizeof text;
    if (missing_.empty() && mallctl("version", &text, &size, nullptr, 0) == 0)
      version_ = text;
  }

  /// The reason why jemalloc is not available; empty when it is.
  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }
  [[nodiscard]] const std::string& version() const noexcept { return version_; }

  /// Calls a mallctl() that creates something ("arenas.create", for example) and returns its index.
  unsigned make(const char* name, extent_hooks* hooks = nullptr) const
  {
    unsigned result = 0;
    std::size_t size = sizeof result;
    if (mallctl(name, &result, &size, hooks != nullptr ? &hooks : nullptr,
          hooks != nullptr ? sizeof hooks : 0)
      != 0)
      throw std::runtime_error(std::string("mallctl() of jemalloc failed: ") + name);
    return result;
  }

  void* (*malloc)(std::size_t) = nullptr;
  void (*free)(void*) = nullptr;
  void* (*mallocx)(std::size_t, int) = nullptr;
  void (*sdallocx)(void*, std::size_t, int) = nullptr;
  int (*mallctl)(const char*, void*, std::size_t*, void*, std::size_t) = nullptr;

private:
  template <class Function>
  void find(Function*& to, const char* name)
  {
    to = reinterpret_cast<Function*>(::dlsym(handle_, name));
    if (to == nullptr)
      missing_ = std::string("libjemalloc.so.2 has no ") + name;
  }

  void* handle_ = nullptr; // never closed: jemalloc cannot be unloaded
  std::string missing_;
  std::string version_;
};

/// A jemalloc arena whose extents are registered when they are mapped.
class registered_extents
{
public:
  registered_extents(const jemalloc& how, const rdma::context& context)
    : context_(context)
  {
    hooks_.self = this;
    hooks_.alloc = [](extent_hooks* h, void* at, std::size_t size, std::size_t alignment,
                     bool* zero, bool* commit, unsigned)
    { return at != nullptr ? nullptr : of(h).map(size, alignment, zero, commit); };
    // true opts out of the deallocation: jemalloc keeps the extent and uses it again.
    hooks_.dalloc = [](extent_hooks*, void*, std::size_t, bool, unsigned) { return true; };
    hooks_.split = [](extent_hooks*, void*, std::size_t, std::size_t, std::size_t, bool, unsigned)
    { return false; };
    // Extents of two registrations must not be merged.
    hooks_.merge = [](extent_hooks* h, void* a, std::size_t, void* b, std::size_t, bool, unsigned)
    { return !of(h).same_region(a, b); };
    arena_ = how.make("arenas.create", &hooks_);
  }

  [[nodiscard]] unsigned arena() const noexcept { return arena_; }

private:
  struct hooks_with_owner : extent_hooks
  {
    registered_extents* self = nullptr;
  };
  static registered_extents& of(extent_hooks* hooks)
  {
    return *static_cast<hooks_with_owner*>(hooks)->self;
  }

  void* map(std::size_t size, std::size_t alignment, bool* zero, bool* commit)
  {
    void* const mapped =
      ::mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      return nullptr;
    const auto address =
      (reinterpret_cast<std::uintptr_t>(mapped) + alignment - 1) / alignment * alignment;
    auto* const data = reinterpret_cast<std::byte*>(address); // the rest stays mapped
    rdma::error_code ec;
    rdma::memory_region region(context_, data, size, rdma::access::local_write, ec);
    if (ec)
      return nullptr;
    *zero = *commit = true;
    const std::lock_guard lock(mutex_);
    regions_.emplace(data + size, std::move(region)); // keyed by its end, for upper_bound()
    return data;
  }

  bool same_region(const void* a, const void* b)
  {
    const std::lock_guard lock(mutex_);
    return regions_.upper_bound(static_cast<const std::byte*>(a))
      == regions_.upper_bound(static_cast<const std::byte*>(b));
  }

  rdma::context context_;
  hooks_with_owner hooks_{};
  unsigned arena_ = 0;
  std::mutex mutex_;
  std::map<const std::byte*, rdma::memory_region> regions_;
};

} // namespace bench

#endif // BOOST_RDMA_BENCH_JEMALLOC_HPP
