//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/load_library.hpp"

#include <cstdlib>
#include <link.h>

namespace rdma::verbs {

loaded_library::loaded_library(
  const char* variable, const char* file, const char* package, const char* use)
{
  const char* wanted = ::secure_getenv(variable); // null in a set-user-ID program
  if (wanted != nullptr && *wanted == '\0')
  {
    reason_ =
      std::string(variable) + " is set to an empty value, which excludes the system's RDMA devices";
    return;
  }
  if (wanted != nullptr)
    file = wanted;
  handle_ = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr)
  {
    const char* why = ::dlerror();
    reason_ = std::string("cannot load ") + file + " (" + (why != nullptr ? why : "no reason given")
      + "). Install the package " + package + " to " + use;
    return;
  }
  if (::link_map* map = nullptr; ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr)
    path_ = map->l_name;
}

std::string loaded_library::reason() const
{
  return handle_ != nullptr ? path_ + " is too old: it lacks " + missing_ + ". Update rdma-core"
                            : reason_;
}

} // namespace rdma::verbs
