//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include <boost_rdma/diagnosis.hpp>
#include <boost_rdma/error.hpp>

#include <boost/asio/error.hpp>

#include <cerrno>
#include <set>

TEST_CASE("every error has its own message and all but peer_closed have a likely cause")
{
  std::set<std::string> messages;
  for (int i = static_cast<int>(rdma::error::no_device);
       i <= static_cast<int>(rdma::error::call_failed); ++i)
  {
    const rdma::error_code ec = static_cast<rdma::error>(i);
    CAPTURE(i, ec.message());
    CHECK(ec);
    CHECK(&ec.category() == &rdma::error_category());
    CHECK(messages.insert(ec.message()).second);
    CHECK(ec.message() != "unknown rdma error");
    if (ec != rdma::error::peer_closed)
      CHECK_FALSE(rdma::likely_cause(ec).empty());
  }
  CHECK(rdma::error_code(9999, rdma::error_category()).message() == "unknown rdma error");
}

TEST_CASE("every completion status has its own message")
{
  std::set<std::string> messages;
  for (int i = 0; i <= static_cast<int>(rdma::wc_status::general_error); ++i)
  {
    const rdma::error_code ec = static_cast<rdma::wc_status>(i);
    CHECK(static_cast<bool>(ec) == (i != 0));
    CHECK(&ec.category() == &rdma::wc_category());
    CHECK(messages.insert(ec.message()).second);
  }
  CHECK(rdma::error_code(200, rdma::wc_category()).message() == "unknown work completion status");
  for (rdma::wc_status status : {rdma::wc_status::local_length_error,
         rdma::wc_status::local_protection_error, rdma::wc_status::flushed,
         rdma::wc_status::remote_access_error, rdma::wc_status::retry_exceeded,
         rdma::wc_status::rnr_retry_exceeded, rdma::wc_status::remote_invalid_request_error})
    CHECK_FALSE(rdma::likely_cause(status).empty());
}

TEST_CASE("only a flushed completion status equals errc::operation_canceled")
{
  const rdma::error_code flushed = rdma::wc_status::flushed;
  CHECK(flushed == boost::system::errc::operation_canceled);
  // The codes differ; only the conditions are equal.
  CHECK(flushed != boost::asio::error::make_error_code(boost::asio::error::operation_aborted));
  CHECK(
    rdma::error_code(rdma::wc_status::retry_exceeded) != boost::system::errc::operation_canceled);
  CHECK(rdma::error_code(rdma::error::closed) != boost::system::errc::operation_canceled);
}

TEST_CASE("likely_cause names the remedy for the errors that new users meet")
{
  auto cause = [](int number)
  { return rdma::likely_cause(rdma::error_code(number, boost::system::system_category())); };
  CHECK(cause(ENOMEM).find("ulimit -l") != std::string::npos);
  CHECK(cause(ENOMEM).find("RLIMIT_MEMLOCK") != std::string::npos);
  CHECK(cause(ENOMEM).find("LimitMEMLOCK=") != std::string::npos);
  CHECK(cause(ENOMEM).find("/etc/security/limits.d") != std::string::npos);
  CHECK(cause(EOPNOTSUPP).find("has_atomics()") != std::string::npos);
  CHECK(cause(EACCES).find("/dev/infiniband") != std::string::npos);
  CHECK(cause(EMFILE).find("ulimit -n") != std::string::npos);
  CHECK(cause(ECONNREFUSED).find("Nothing listens at that address and port.") == 0);
  CHECK(cause(EADDRINUSE).find("Another process listens on that port") == 0);
  CHECK(cause(EADDRINUSE).find("ss -ltnp") != std::string::npos);
  CHECK(cause(ENOENT).empty());
  CHECK(rdma::likely_cause(rdma::error_code()).empty());
}

TEST_CASE("a diagnosis text contains the operation, the location and the cause")
{
  rdma::diagnosis d;
  CHECK(d.text() == "no failure");
  d.code = rdma::wc_status::rnr_retry_exceeded;
  d.operation = "send";
  d.device = "mlx5_0";
  d.port = 2;
  d.queue_pair_number = 77;
  d.vendor_error = 0x81;
  const std::string text = d.text();
  for (const char* part :
    {"send", "mlx5_0", "port 2", "77", "RNR retry counter exceeded", "129", "receive"})
  {
    CAPTURE(text, part);
    CHECK(text.find(part) != std::string::npos);
  }
}
