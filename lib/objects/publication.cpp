//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/publication.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace rdma::detail::objects {

publisher::publisher(const published_layout& of)
  : layout(of)
  , watch(of.slots, of.lease)
  , publications(of.buffers)
  , slots(of.slots)
{
  publications[current.buffer] = 1;
  ended.reserve(of.slots);
}

void encode_published(
  std::span<std::uint64_t> image, const header& head, const published_layout& layout) noexcept
{
  std::memcpy(image.data(), &head, sizeof head);
  image[layout.current / 8] = published_version{0, 0}.packed();
  for (std::uint64_t i = 1; i != layout.buffers; ++i)
    image[layout.generation(i) / 8] = no_generation;
}

// ---- publication

step publication::begin() noexcept
{
  if (by_->busy)
    return step::finish(boost::asio::error::already_started);
  by_->busy = true;
  turn_.reset(&by_->busy);
  if (by_->prepared)
    return prepared();
  return what_ == extent::commit ? step::finish(boost::asio::error::invalid_argument)
                                 : enter(stage::look);
}

// The buffer may have a part of a value that was not committed.
step publication::prepared() noexcept
{
  made_ = {by_->current.generation + 1, *by_->prepared};
  switch (what_)
  {
  case extent::prepare:
    buffer_ = made_.buffer;
    return step::finish();
  case extent::commit:
    return store(stage::fill, made_.generation);
  case extent::all:
    return store(stage::fill, made_.generation, 2);
  }
  return step::finish(); // not reached
}

access_request publication::request(std::size_t i) noexcept
{
  const published_layout& layout = by_->layout;
  const auto word = std::as_writable_bytes(std::span(&word_, 1));
  switch (stage_)
  {
  case stage::look:
    return {.kind = request_kind::read,
      .offset = layout.slot(0),
      .bytes = std::as_writable_bytes(std::span(by_->slots))};
  case stage::expire:
  {
    const std::uint64_t pin = by_->slots[by_->ended[i]];
    return {.kind = request_kind::compare_exchange,
      .offset = layout.slot(by_->ended[i]),
      .compare_or_add = pin,
      .swap = pin_word::of(pin).freed().packed()};
  }
  case stage::publish:
    return {.kind = request_kind::write, .offset = layout.current, .bytes = word};
  default:
    if (i == 0)
      return {
        .kind = request_kind::write, .offset = layout.generation(made_.buffer), .bytes = word};
    return {.kind = request_kind::write,
      .offset = layout.value(made_.buffer),
      .bytes = std::span(const_cast<std::byte*>(value_.data()), value_.size())}; // is only read
  }
}

// `current` named another buffer before the slots were loaded. A reader that pins one of the others
// after that sees that it is not current any more.
step publication::looked(bool cancelled)
{
  if (by_->closed)
    return step::finish(boost::asio::error::operation_aborted);
  std::array<bool, published_layout::buffers_max + 1> used{};
  used[by_->current.buffer] = true;
  const time_point now = clock_();
  by_->ended.clear();
  for (std::size_t i = 0; i != by_->slots.size(); ++i)
    if (const pin_word pin = pin_word::of(by_->slots[i]); pin.pinned)
    {
      used[pin.buffer] = true;
      if (by_->watch.has_ended(i, by_->slots[i], now) && pin.buffer != by_->current.buffer)
        by_->ended.push_back(i);
    }
  // The oldest value, because loads without a pin may still read the others.
  std::optional<std::uint8_t> oldest;
  for (std::size_t i = 0; i != by_->publications.size(); ++i)
    if (!used[i] && (!oldest || by_->publications[i] < by_->publications[*oldest]))
      oldest = static_cast<std::uint8_t>(i);
  if (oldest)
  {
    made_ = {by_->current.generation + 1, *oldest};
    return store(stage::invalidate, no_generation);
  }
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  if (!by_->ended.empty())
  {
    freed_ += static_cast<unsigned>(by_->ended.size());
    return enter(stage::expire, by_->ended.size());
  }
  stage_ = stage::pause;
  return pause_.next();
}

step publication::next(bool cancelled)
{
  switch (stage_)
  {
  case stage::look:
    return looked(cancelled);
  case stage::pause:
  case stage::expire:
    return enter(stage::look);
  case stage::invalidate:
    by_->prepared = made_.buffer;
    return prepared();
  case stage::fill:
    return store(stage::publish, made_.packed());
  case stage::publish:
    by_->current = made_;
    by_->publications[made_.buffer] = made_.generation + 1;
    by_->prepared.reset();
    return step::finish();
  }
  return step::finish(); // not reached
}

// ---- local_publication

step local_publication::carry_out(step next, bool cancelled)
{
  while (next.what == step::action::access && is_on_processor())
  {
    // seq_cst: peers see the stores of a step before those of the next one, and a load of the slots
    // does not pass the store to `current` before it. Also orders stores that bypass the cache.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::size_t i = 0; i != next.requests; ++i)
      access(request(i));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    next = publication::next(cancelled);
  }
  return next;
}

void local_publication::access(const access_request& what) const noexcept
{
  std::uint64_t* const at = &memory_[what.offset / 8];
  const std::size_t words = what.bytes.size() / 8;
  if (what.kind == request_kind::read)
    for (std::size_t i = 0; i != words; ++i)
    {
      // relaxed: carry_out() has fences.
      const std::uint64_t word = std::atomic_ref(at[i]).load(std::memory_order_relaxed);
      std::memcpy(what.bytes.data() + 8 * i, &word, sizeof word);
    }
  else if (what.bytes.size() == sizeof(std::uint64_t))
  {
    std::uint64_t word = 0;
    std::memcpy(&word, what.bytes.data(), sizeof word);
    std::atomic_ref(*at).store(word, std::memory_order_relaxed);
  }
  else
    std::memcpy(at, what.bytes.data(), what.bytes.size());
}

} // namespace rdma::detail::objects
