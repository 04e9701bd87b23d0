//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/map_open.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <span>

namespace rdma::detail::objects {

// ---- open_map

access_request open_map::request(std::size_t i) noexcept
{
  if (compared_)
    return load_.request(i);
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&found_, 1))};
}

step open_map::next(bool cancelled)
{
  map_shape& shape = tables_.first.shape;
  if (compared_)
  {
    const step loads = load_.next(cancelled);
    if (loads.what != step::action::finish || loads.ec)
      return loads;
    return step::finish(tables_.set(directory_) ? error_code() : error::object_mismatch);
  }
  compared_ = true;
  shape.buckets = found_.capacity;
  shape.blocks = found_.parameters[0];
  shape.seed = found_.parameters[1];
  if (found_ != with_shape(expected_, shape) || !shape.is_valid())
    return step::finish(error::object_mismatch);
  if (shape.size() > tables_.first.memory.size())
    return step::finish(error::remote_range_too_small);
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  return load_.begin(
    map_directory_offset, cell_, std::as_writable_bytes(std::span(&directory_, 1)));
}

// ---- create_map

step create_map::begin()
{
  if (checked_)
    return step::finish(checked_);
  zeros_.resize(std::min(left(), chunk_max));
  return step::access(1);
}

access_request create_map::request(std::size_t) noexcept
{
  return {.kind = request_kind::write,
    .offset = left() == 0 ? 0 : written_,
    .bytes = left() == 0 ? std::as_writable_bytes(std::span(&header_, 1))
                         : std::span(zeros_).first(std::min<std::uint64_t>(left(), zeros_.size()))};
}

step create_map::next(bool cancelled) noexcept
{
  if (left() == 0)
  {
    tables_.current = tables_.first;
    return step::finish();
  }
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  written_ += std::min<std::uint64_t>(left(), zeros_.size());
  return step::access(1);
}

} // namespace rdma::detail::objects
