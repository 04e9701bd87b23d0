//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// print_devices [NAME]: prints the devices of this host and the result of opening the named one.

#include <boost_rdma/context.hpp>
#include <boost_rdma/device.hpp>

#include <iostream>

int main(int count, char** arguments)
{
  for (const rdma::device_info& each : rdma::list_devices())
    std::cout << "device=" << each.name << ' ' << each.remark << '\n';
  std::cout << "library=" << rdma::system_library_remark() << '\n';
  try
  {
    rdma::context_options options;
    if (count > 1)
      options.device = arguments[1];
    std::cout << "opened=" << rdma::context(options).default_device().name() << '\n';
  }
  catch (const rdma::system_error& e)
  {
    std::cout << "refused=" << e.what() << "\ncause=" << rdma::likely_cause(e.code()) << '\n';
  }
}
