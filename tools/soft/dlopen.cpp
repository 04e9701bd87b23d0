//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A library that is loaded with RTLD_DEEPBIND would use libibverbs and librdmacm before the
// preloaded library.

#include <dlfcn.h>

#if __has_cpp_attribute(clang::musttail)
#define BOOST_RDMA_TAIL_CALL [[clang::musttail]]
#else
#define BOOST_RDMA_TAIL_CALL // GCC makes tail calls from -O2 on
#endif

extern "C" void* dlopen(const char* file, int mode) noexcept
{
  static const auto next =
    reinterpret_cast<void* (*)(const char*, int) noexcept>(::dlsym(RTLD_NEXT, "dlopen"));
  // A tail call, because the C library identifies the caller, whose RUNPATH and $ORIGIN it uses, by
  // the return address.
  BOOST_RDMA_TAIL_CALL return next(file, mode & ~RTLD_DEEPBIND);
}
