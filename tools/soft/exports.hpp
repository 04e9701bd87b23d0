//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOFT_EXPORTS_HPP
#define BOOST_RDMA_TOOLS_SOFT_EXPORTS_HPP

#include "verbs/api.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/software.hpp"

#include <cerrno>

// The functions of libibverbs that a program finds here, because this library is preloaded, before
// it finds those of libibverbs itself. That one is loaded as well where the program is linked with
// it, and the two must never meet: each function that is given an object is defined here, and
// refuses objects that are not the software device's own (a program may have got one by dlopen()
// and dlsym(), which do not look here).

// More of what verbs.h makes macros of (see verbs/api.hpp).
#undef ibv_reg_mr_iova

namespace rdma::soft {

inline bool ours(const ibv_device* device)
{
  return device == software::the_device();
}
inline bool ours(const ibv_context* context)
{
  return context != nullptr && ours(context->device);
}

/// Protection domains, queues, regions: everything that knows its context.
template <class Object>
bool ours(const Object* object)
{
  return object != nullptr && ours(object->context);
}

/// What a function that makes something returns when it does not: nothing, and why in errno.
template <class Object>
Object* refuse(int error)
{
  errno = error;
  return nullptr;
}

/// The same where -1 says that it failed.
inline int refuse(int error)
{
  errno = error;
  return -1;
}

inline const verbs::api& device()
{
  return software::api();
}

} // namespace rdma::soft

#endif // BOOST_RDMA_TOOLS_SOFT_EXPORTS_HPP
