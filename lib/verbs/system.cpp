//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/api.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

namespace rdma::verbs {
namespace {

system_library load()
{
  system_library result;
  const char* wanted = std::getenv("BOOST_RDMA_LIBIBVERBS");
  if (wanted != nullptr && *wanted == '\0')
  {
    result.reason = "BOOST_RDMA_LIBIBVERBS is set to nothing, which keeps the system's RDMA devices "
                    "out of this program";
    return result;
  }
  const char* file = wanted != nullptr ? wanted : "libibverbs.so.1";

  // Never closed: providers that the library loads register handlers that outlive any one user.
  void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
  {
    const char* why = ::dlerror();
    result.reason = std::string("cannot load ") + file + " (" + (why != nullptr ? why : "no reason given")
      + "); install the package libibverbs1 to use RDMA NICs";
    return result;
  }
  if (::link_map* map = nullptr; ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr)
    result.path = map->l_name;

  static api table;
  std::string missing;
  auto resolve = [&]<class Function>(Function& member, const char* name)
  {
    void* symbol = ::dlsym(handle, name);
    if (symbol == nullptr)
      missing += std::string(missing.empty() ? "" : ", ") + name;
    member = reinterpret_cast<Function>(symbol);
  };
#define BOOST_RDMA_VERBS_RESOLVE(member, function) resolve(table.member, #function);
  BOOST_RDMA_VERBS_FUNCTIONS(BOOST_RDMA_VERBS_RESOLVE)
#undef BOOST_RDMA_VERBS_RESOLVE
  if (!missing.empty())
    result.reason = result.path + " is too old: it lacks " + missing;
  else
    result.functions = &table;
  return result;
}

} // namespace

const system_library& system()
{
  static const system_library library = load();
  return library;
}

} // namespace rdma::verbs
