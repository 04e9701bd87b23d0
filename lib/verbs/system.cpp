//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/api.hpp"
#include "verbs/cm_api.hpp"
#include "verbs/load_library.hpp"

namespace rdma::verbs {
namespace {

system_library load()
{
  loaded_library library(
    "BOOST_RDMA_LIBIBVERBS", "libibverbs.so.1", "libibverbs1", "use RDMA NICs");
  static api table;
#define BOOST_RDMA_VERBS_RESOLVE(member, function) library.resolve(table.member, #function);
  BOOST_RDMA_VERBS_FUNCTIONS(BOOST_RDMA_VERBS_RESOLVE)
#undef BOOST_RDMA_VERBS_RESOLVE
  if (library.loaded())
    return {&table, library.path(), {}};
  return {nullptr, library.path(), library.reason()};
}

cm_library load_cm()
{
  loaded_library library(
    "BOOST_RDMA_LIBRDMACM", "librdmacm.so.1", "librdmacm1", "connect by RDMA-CM");
  static cm_api table;
#define BOOST_RDMA_CM_RESOLVE(member, function) library.resolve(table.member, #function);
  BOOST_RDMA_CM_FUNCTIONS(BOOST_RDMA_CM_RESOLVE)
#undef BOOST_RDMA_CM_RESOLVE
  if (library.loaded())
    return {&table, library.path(), {}};
  return {nullptr, library.path(), library.reason()};
}

} // namespace

const system_library& system()
{
  static const system_library library = load();
  return library;
}

const cm_library& system_cm()
{
  static const cm_library library = load_cm();
  return library;
}

} // namespace rdma::verbs
