//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Calls a method of a server of rdma::rpc with JSON (doc/rdma_call.md):
//
//   rdma_call HOST:PORT                                      lists the methods
//   rdma_call HOST:PORT METHOD [REQUEST]                     prints the reply
//   rdma_call HOST:PORT add/1 '{"a": 1, "b": 2}' --request 'i32 a, i32 b' --reply i32
//
// The exit code is 1 if the call fails, and 2 if the command line is wrong.

#include "call/command.hpp"
#include "call/values.hpp"

#include <boost_rdma/error.hpp>

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>

int main(int argc, char** argv)
{
  call::command what;
  double seconds = what.timeout.count();
  CLI::App app("Calls a method of a server of rdma::rpc with JSON, or lists its methods.");
  app.add_option("SERVER", what.server, "HOST:PORT or [ADDRESS]:PORT")->required();
  app.add_option("METHOD", what.method, "the method; without one, the methods are listed");
  app.add_option("JSON", what.request, "the request");
  app
    .add_option("--request", what.request_layout,
      "the members of the request's type, or of its elements: i8 to i64, u8 to u64, f32, f64, "
      "bool, char, arrays as char[16], with or without names, as \"i32 a, i32 b\"")
    ->type_name("TYPES");
  app.add_option("--reply", what.reply_layout, "the members of the reply's type")
    ->type_name("TYPES");
  app.add_option("--timeout", seconds, "time limit in seconds of connecting, and of the call")
    ->check(CLI::Range(0.001, 1e6))
    ->capture_default_str();
  app.add_option("--device", what.device, "use this device, as BOOST_RDMA_DEVICE does");
  app.add_flag("--tcp", what.tcp, "use TCP, not RDMA");
  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::ParseError& failure)
  {
    return app.exit(failure) == 0 ? 0 : 2;
  }
  what.timeout = std::chrono::duration<double>(seconds);
  try
  {
    call::run(what, std::cout);
    if (!std::cout.flush())
      throw std::runtime_error("cannot write the output");
    return 0;
  }
  catch (const call::usage_error& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 2;
  }
  catch (const rdma::system_error& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    if (const std::string cause = rdma::likely_cause(failure.code()); !cause.empty())
      std::cerr << cause << '\n';
    return 1;
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
