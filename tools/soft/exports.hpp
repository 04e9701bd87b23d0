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

// This library is preloaded, so a program finds these functions before those of libibverbs.
// libibverbs is loaded as well if the program is linked with it, and objects of the two must not be
// mixed. Therefore every function that takes an object is defined here and refuses objects of other
// devices. A program may have such objects from dlopen() and dlsym(), which bypass the preloaded
// functions.

// More functions that verbs.h defines as macros (see verbs/api.hpp).
#undef ibv_reg_mr_iova

namespace rdma::soft {

inline bool ours(const ibv_device* device)
{
  return software::index_of(device) != software::devices_max;
}
inline bool ours(const ibv_context* context)
{
  return context != nullptr && ours(context->device);
}

/// For protection domains, queues and regions, which have a pointer to their context.
template <class Object>
bool ours(const Object* object)
{
  return object != nullptr && ours(object->context);
}

/// Sets errno and returns null, for functions that create an object.
template <class Object>
Object* refuse(int error)
{
  errno = error;
  return nullptr;
}

/// Sets errno and returns -1.
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
