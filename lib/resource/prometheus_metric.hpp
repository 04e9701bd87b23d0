//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_PROMETHEUS_METRIC_HPP
#define BOOST_RDMA_LIB_RESOURCE_PROMETHEUS_METRIC_HPP

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace rdma::detail {

// Metrics with one name, as text for Prometheus. Numbers do not depend on the stream's locale and
// flags.
class prometheus_metric
{
public:
  prometheus_metric(
    std::ostream& to, std::string_view name, std::string_view type, std::string_view help)
    : to_(to)
    , name_(name)
  {
    to_ << "# HELP " << name_ << ' ' << help << "\n# TYPE " << name_ << ' ' << type << '\n';
  }
  void value(std::uint64_t number) const { to_ << name_ << ' ' << std::to_string(number) << '\n'; }
  void value(std::string_view labels, std::uint64_t number) const
  {
    value("", labels, std::to_string(number));
  }
  // The parts of a histogram have suffixes.
  void value(std::string_view suffix, std::string_view labels, std::string_view number) const
  {
    to_ << name_ << suffix << '{' << labels << "} " << number << '\n';
  }

private:
  std::ostream& to_;
  std::string_view name_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_PROMETHEUS_METRIC_HPP
