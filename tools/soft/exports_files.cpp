//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "soft/kernel_files.hpp"

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

// The functions of the C library that take a file's path. UCX looks for /dev/infiniband/NAME before
// it uses a device, and other programs read /sys/class/infiniband. Each function calls the C
// library's, with the path of kernel_files.hpp.

using rdma::soft::file_path;

namespace {

// The next definition of a function behind this library's. No lock: signal handlers call these
// functions as well.
template <class Function>
class next
{
public:
  explicit constexpr next(const char* name) noexcept
    : name_(name)
  {
  }
  Function* get() noexcept
  {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr)
    {
      found = ::dlsym(RTLD_NEXT, name_);
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(found);
  }

private:
  const char* const name_;
  std::atomic<void*> found_{nullptr};
};

bool creates(int flags)
{
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

} // namespace

// Defines the C library's `function`. The C++ name differs, because the headers declare some of
// these functions with other attributes, or as macros.
#define BOOST_RDMA_FILE_FUNCTION(result, function, parameters, ...)                                \
  extern "C" result soft_##function parameters __asm__(#function);                                 \
  extern "C" result soft_##function parameters                                                     \
  {                                                                                                \
    static constinit next<result parameters> original(#function);                                  \
    return original.get()(__VA_ARGS__);                                                            \
  }

// The same for functions with a mode if they create a file.
#define BOOST_RDMA_OPEN_FUNCTION(function, parameters, ...)                                        \
  extern "C" int soft_##function parameters __asm__(#function);                                    \
  extern "C" int soft_##function parameters                                                        \
  {                                                                                                \
    static constinit next<int parameters> original(#function);                                     \
    mode_t mode = 0;                                                                               \
    if (creates(flags))                                                                            \
    {                                                                                              \
      va_list list;                                                                                \
      va_start(list, flags);                                                                       \
      mode = va_arg(list, mode_t);                                                                 \
      va_end(list);                                                                                \
    }                                                                                              \
    return original.get()(__VA_ARGS__, flags, mode);                                               \
  }

// --- opening. Those with an underscore are called by programs with _FORTIFY_SOURCE. ---
BOOST_RDMA_OPEN_FUNCTION(open, (const char* path, int flags, ...), file_path(path))
BOOST_RDMA_OPEN_FUNCTION(open64, (const char* path, int flags, ...), file_path(path))
BOOST_RDMA_OPEN_FUNCTION(openat, (int at, const char* path, int flags, ...), at, file_path(path))
BOOST_RDMA_OPEN_FUNCTION(openat64, (int at, const char* path, int flags, ...), at, file_path(path))
BOOST_RDMA_FILE_FUNCTION(int, __open_2, (const char* path, int flags), file_path(path), flags)
BOOST_RDMA_FILE_FUNCTION(int, __open64_2, (const char* path, int flags), file_path(path), flags)
BOOST_RDMA_FILE_FUNCTION(
  int, __openat_2, (int at, const char* path, int flags), at, file_path(path), flags)
BOOST_RDMA_FILE_FUNCTION(
  int, __openat64_2, (int at, const char* path, int flags), at, file_path(path), flags)
BOOST_RDMA_FILE_FUNCTION(FILE*, fopen, (const char* path, const char* how), file_path(path), how)
BOOST_RDMA_FILE_FUNCTION(FILE*, fopen64, (const char* path, const char* how), file_path(path), how)

// --- attributes. Those with an underscore are called by programs built with a glibc before 2.33.
// ---
BOOST_RDMA_FILE_FUNCTION(int, access, (const char* path, int mode), file_path(path), mode)
BOOST_RDMA_FILE_FUNCTION(
  int, faccessat, (int at, const char* path, int mode, int flags), at, file_path(path), mode, flags)
BOOST_RDMA_FILE_FUNCTION(int, stat, (const char* path, struct ::stat* to), file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(int, stat64, (const char* path, void* to), file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(int, lstat, (const char* path, struct ::stat* to), file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(int, lstat64, (const char* path, void* to), file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(int, fstatat, (int at, const char* path, struct ::stat* to, int flags), at,
  file_path(path), to, flags)
BOOST_RDMA_FILE_FUNCTION(
  int, fstatat64, (int at, const char* path, void* to, int flags), at, file_path(path), to, flags)
BOOST_RDMA_FILE_FUNCTION(int, statx, (int at, const char* path, int flags, unsigned mask, void* to),
  at, file_path(path), flags, mask, to)
BOOST_RDMA_FILE_FUNCTION(
  int, __xstat, (int version, const char* path, void* to), version, file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(
  int, __xstat64, (int version, const char* path, void* to), version, file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(
  int, __lxstat, (int version, const char* path, void* to), version, file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(
  int, __lxstat64, (int version, const char* path, void* to), version, file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(int, __fxstatat,
  (int version, int at, const char* path, void* to, int flags), version, at, file_path(path), to,
  flags)
BOOST_RDMA_FILE_FUNCTION(int, __fxstatat64,
  (int version, int at, const char* path, void* to, int flags), version, at, file_path(path), to,
  flags)

// ls calls these for the entries of a directory.
BOOST_RDMA_FILE_FUNCTION(ssize_t, getxattr,
  (const char* path, const char* name, void* to, std::size_t size), file_path(path), name, to, size)
BOOST_RDMA_FILE_FUNCTION(ssize_t, lgetxattr,
  (const char* path, const char* name, void* to, std::size_t size), file_path(path), name, to, size)

// --- directories and links ---
BOOST_RDMA_FILE_FUNCTION(DIR*, opendir, (const char* path), file_path(path))
BOOST_RDMA_FILE_FUNCTION(int, scandir,
  (const char* path, dirent*** to, int (*filter)(const dirent*),
    int (*compare)(const dirent**, const dirent**)),
  file_path(path), to, filter, compare)
BOOST_RDMA_FILE_FUNCTION(int, scandir64,
  (const char* path, void* to, int (*filter)(const void*),
    int (*compare)(const void*, const void*)),
  file_path(path), to, filter, compare)
BOOST_RDMA_FILE_FUNCTION(
  ssize_t, readlink, (const char* path, char* to, std::size_t size), file_path(path), to, size)
BOOST_RDMA_FILE_FUNCTION(ssize_t, readlinkat,
  (int at, const char* path, char* to, std::size_t size), at, file_path(path), to, size)
BOOST_RDMA_FILE_FUNCTION(ssize_t, __readlink_chk,
  (const char* path, char* to, std::size_t size, std::size_t available), file_path(path), to, size,
  available)
BOOST_RDMA_FILE_FUNCTION(char*, realpath, (const char* path, char* to), file_path(path), to)
BOOST_RDMA_FILE_FUNCTION(
  char*, __realpath_chk, (const char* path, char* to, std::size_t size), file_path(path), to, size)
BOOST_RDMA_FILE_FUNCTION(char*, canonicalize_file_name, (const char* path), file_path(path))
