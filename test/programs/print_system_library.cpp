//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Prints the result of loading the system's libibverbs and librdmacm. A process loads them once, so
// each setting of BOOST_RDMA_LIBIBVERBS and BOOST_RDMA_LIBRDMACM needs its own process.

#include "verbs/api.hpp"
#include "verbs/cm_api.hpp"

#include <iostream>

#include <sys/auxv.h>

namespace {

void print_cm()
{
  const rdma::verbs::cm_library& library = rdma::verbs::system_cm();
  std::cout << "cm_path=" << library.path << "\ncm_reason=" << library.reason << '\n';
  int missing = 0;
  if (library.functions != nullptr)
  {
#define BOOST_RDMA_CM_COUNT(member, function)                                                      \
  missing += library.functions->member == nullptr ? 1 : 0;
    BOOST_RDMA_CM_FUNCTIONS(BOOST_RDMA_CM_COUNT)
#undef BOOST_RDMA_CM_COUNT
  }
  std::cout << "cm_functions="
            << (library.functions == nullptr ? "none"
                   : missing == 0            ? "all"
                                             : "some")
            << '\n';
}

} // namespace

int main()
{
  std::cout << "secure=" << ::getauxval(AT_SECURE) << '\n'; // set-user-ID, see secure_getenv(3)
  print_cm();
  const rdma::verbs::system_library& library = rdma::verbs::system();
  std::cout << "path=" << library.path << "\nreason=" << library.reason << '\n';
  if (library.functions == nullptr)
  {
    std::cout << "functions=none\n";
    return 0;
  }
  int missing = 0;
#define BOOST_RDMA_VERBS_COUNT(member, function)                                                   \
  missing += library.functions->member == nullptr ? 1 : 0;
  BOOST_RDMA_VERBS_FUNCTIONS(BOOST_RDMA_VERBS_COUNT)
#undef BOOST_RDMA_VERBS_COUNT
  std::cout << "functions=" << (missing == 0 ? "all" : "some") << '\n';
  std::cout << "success=" << library.functions->wc_status_str(IBV_WC_SUCCESS) << '\n';
  return &rdma::verbs::system() == &library ? 0 : 1;
}
