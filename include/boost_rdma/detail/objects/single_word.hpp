//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_DETAIL_OBJECTS_SINGLE_WORD_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_SINGLE_WORD_HPP

#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <boost/asio/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

// Objects of one word, and the state machines of their operations.

namespace rdma::detail::objects {

struct word_memory
{
  objects::header header;
  std::uint64_t word;
};

// One request to the word. Its result is the word's previous value.
class word_request
{
public:
  explicit word_request(
    request_kind kind, std::uint64_t compare_or_add = 0, std::uint64_t swap = 0) noexcept
    : kind_(kind)
    , compare_or_add_(compare_or_add)
    , swap_(swap)
  {
  }

  step begin() noexcept { return step::access(1); }
  access_request request(std::size_t) noexcept
  {
    access_request result{.kind = kind_,
      .offset = offsetof(word_memory, word),
      .compare_or_add = compare_or_add_,
      .swap = swap_};
    if (kind_ == request_kind::read)
      result.bytes = std::as_writable_bytes(std::span(&was_, 1));
    return result;
  }
  void answered(std::size_t, std::uint64_t was) noexcept
  {
    if (kind_ != request_kind::read)
      was_ = was;
  }
  step next(bool) noexcept { return step::finish(); }
  [[nodiscard]] std::uint64_t was() const noexcept { return was_; }
  [[nodiscard]] auto results() const noexcept { return std::make_tuple(was_); }

private:
  request_kind kind_;
  std::uint64_t compare_or_add_;
  std::uint64_t swap_;
  std::uint64_t was_ = 0;
};

// Reads the word until it is zero, or until it is not.
class word_wait : public word_request
{
public:
  explicit word_wait(bool zero) noexcept
    : word_request(request_kind::read)
    , zero_(zero)
  {
  }

  step next(bool cancelled) noexcept
  {
    if (!std::exchange(pausing_, false))
    {
      if ((was() == 0) == zero_)
        return step::finish();
      pausing_ = true;
    }
    if (cancelled)
      return step::finish(boost::asio::error::operation_aborted);
    return pausing_ ? pause_.next() : step::access(1);
  }
  [[nodiscard]] static auto results() noexcept { return std::make_tuple(); }

private:
  bool zero_;
  bool pausing_ = false;
  back_off pause_{std::chrono::milliseconds(1)};
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_SINGLE_WORD_HPP
