//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_COMMON_COMMAND_LINE_HPP
#define BOOST_RDMA_EXAMPLE_COMMON_COMMAND_LINE_HPP

#include <CLI/CLI.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace example {

/// The roles that the command line can select.
enum class roles
{
  one,         ///< server or client
  one_or_both, ///< or both, if none is selected
};

/// The arguments of the examples:
///   NAME serve [--address A] [--port P]
///   NAME connect ADDRESS PORT [MESSAGE]
///   NAME                                  for both sides in one process
struct command_line
{
  bool serve = false;
  bool connect = false;
  boost::asio::ip::tcp::endpoint endpoint;
  std::string message = "Hello, RDMA";
};

/// Validates an IPv4 or IPv6 address.
inline CLI::Validator an_address()
{
  return CLI::Validator(
    [](const std::string& text)
    {
      boost::system::error_code ec;
      boost::asio::ip::make_address(text, ec);
      return ec ? text + " is not an IPv4 or IPv6 address" : std::string();
    },
    "ADDRESS");
}

/// Parses the arguments. Exits on --help and on errors.
inline command_line parse_command_line(
  int argc, char** argv, const std::string& what, roles permitted = roles::one)
{
  command_line result;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;

  CLI::App app(what);
  const std::string name = std::filesystem::path(argv[0]).filename();
  app.footer("Examples, in two terminals of one host:\n  " + name + " serve --port 7471\n  " + name
    + " connect 127.0.0.1 7471 \"Hello, RDMA\"\n"
      "and on two hosts, with the server at 192.0.2.7 on the RDMA network:\n  "
    + name + " serve --address 0.0.0.0 --port 7471\n  " + name
    + " connect 192.0.2.7 7471\n"
      "BOOST_RDMA_DEVICE=soft0 on either side selects the software device.");
  app.require_subcommand(permitted == roles::one ? 1 : 0, 1);
  CLI::App* serve = app.add_subcommand("serve", "wait for a client");
  serve
    ->add_option(
      "--address", address, "the address to listen on; 0.0.0.0 or :: for all addresses of the host")
    ->check(an_address())
    ->capture_default_str();
  serve->add_option("--port", port, "the TCP port; 0 for any free port")->capture_default_str();
  CLI::App* connect = app.add_subcommand("connect", "connect to a server");
  connect->add_option("ADDRESS", address)->required()->check(an_address());
  connect->add_option("PORT", port)->required();
  connect->add_option("MESSAGE", result.message)->capture_default_str();
  try
  {
    app.parse(argc, argv);
  }
  catch (const CLI::ParseError& failure)
  {
    std::exit(app.exit(failure));
  }
  result.serve = !connect->parsed();
  result.connect = !serve->parsed();
  result.endpoint = {boost::asio::ip::make_address(address), port};
  return result;
}

} // namespace example

#endif // BOOST_RDMA_EXAMPLE_COMMON_COMMAND_LINE_HPP
