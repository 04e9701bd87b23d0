//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/ring_producer.hpp>

#include "completion/waiting_handler.hpp"
#include "connect/connection_service.hpp"

#include <algorithm>
#include <new>
#include <utility>

// The requests of a ring's producer, and its operations that wait.

namespace rdma::detail::objects {

struct ring_producer::waiting
{
  std::uint64_t number;
  waiting_handler<> handler;
  words record;              // of a push
  std::uint64_t written = 0; // number of records that a flush waits for
};

struct ring_producer::wrote
{
  void operator()(const error_code& ec, std::size_t) { producer->on_wrote(slot, ec); }

  std::shared_ptr<ring_producer> producer;
  unsigned slot;
};

struct ring_producer::was_read
{
  void operator()(const error_code& ec, std::size_t) { producer->on_read(ec); }

  std::shared_ptr<ring_producer> producer;
};

ring_producer::ring_producer(
  const io_executor& executor, const place& where, const ring_layout& layout)
  : writer_(layout)
  , staging_(context_of(*where.through()), layout.size(), access::local_write)
  , where_(where)
  , executor_(executor)
  , pause_(executor)
{
  connection_service::of(executor); // its thread completes what waits for memory
  entries_ = reinterpret_cast<std::uint64_t*>(staging_.data() + ring_layout::entries_offset);
}

ring_producer::~ring_producer() = default;

void ring_producer::wait(waiting_list& among, waiting entry, asio::cancellation_slot slot)
{
  entry.number = next_number_++;
  on_cancellation(slot, weak_from_this(),
    [&among, number = entry.number](ring_producer& self)
    {
      const auto found = std::ranges::find(among, number, &waiting::number);
      if (found == among.end())
        return;
      waiting_list ended;
      ended.splice(ended.end(), among, found);
      self.accepts_ = self.pushes_.empty() && !self.end_;
      std::move(ended.front().handler).complete(asio::error::operation_aborted);
    });
  among.push_back(std::move(entry));
}

void ring_producer::complete(const io_executor& executor, end_handler handler, const error_code& ec)
{
  waiting_handler<>(executor, std::move(handler)).complete(ec);
}

void ring_producer::wait_push(const io_executor& executor, words record, end_handler handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<> waits(executor, std::move(handler));
  if (end_)
    return std::move(waits).complete(end_);
  wait(pushes_, {0, std::move(waits), std::move(record)}, slot);
  accepts_ = false;
}

void ring_producer::wait_flush(const io_executor& executor, end_handler handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<> waits(executor, std::move(handler));
  const std::uint64_t target = writer_.next_record();
  if (end_ || writer_.written() == target)
    return std::move(waits).complete(end_);
  wait(flushes_, {0, std::move(waits), {}, target}, slot);
}

// Takes the operations that need not wait any more.
void ring_producer::admit(waiting_list& ended)
{
  while (!pushes_.empty() && writer_.has_room())
  {
    const std::uint64_t number = writer_.next_record();
    const std::uint64_t parity = writer_.layout().parity_of(number);
    std::ranges::transform(pushes_.front().record, entry(number),
      [parity](std::uint64_t word) { return word | parity; });
    static_cast<void>(writer_.push());
    ended.splice(ended.end(), pushes_, pushes_.begin());
  }
  accepts_ = pushes_.empty();
  while (!flushes_.empty() && flushes_.front().written <= writer_.written())
    ended.splice(ended.end(), flushes_, flushes_.begin());
}

void ring_producer::advance()
try
{
  using kind = ring_writer::action::kind;
  for (auto what = writer_.next(); what.what != kind::none && !end_; what = writer_.next())
    start(what);
}
catch (const std::bad_alloc&)
{
  end(make_error_code(boost::system::errc::not_enough_memory));
}

void ring_producer::start(const ring_writer::action& what)
{
  const auto request = [this](request_kind kind, std::uint64_t offset, std::uint64_t size, auto end)
  {
    start_operation<bytes_result>{as_work_source(where_.through())}(executor_, std::move(end),
      detail::request{.kind = kind, .remote = where_.memory().slice(offset, size)},
      const_buffer(staging_.slice(offset, size)));
  };
  switch (what.what)
  {
  case ring_writer::action::kind::write:
  {
    const ring_layout& layout = writer_.layout();
    return request(request_kind::write, layout.offset_of(layout.index_of(what.first)),
      what.count * 8 * layout.entry_words, wrote{shared_from_this(), what.slot});
  }
  case ring_writer::action::kind::read:
    return request(request_kind::read, ring_layout::consumed_offset, sizeof(std::uint64_t),
      was_read{shared_from_this()});
  case ring_writer::action::kind::pause:
    pause_.expires_after(what.pause);
    return pause_.async_wait(
      [self = shared_from_this()](const error_code&)
      {
        if (self->end_)
          return;
        self->writer_.rested();
        self->advance();
      });
  case ring_writer::action::kind::none:
    return;
  }
}

void ring_producer::on_wrote(unsigned slot, const error_code& ec)
{
  if (ec)
    return end(ec);
  if (end_)
    return;
  writer_.wrote(slot);
  waiting_list ended;
  admit(ended);
  advance();
  if (ended.size() == 1)
    return std::move(ended.front().handler).complete_here({});
  for (waiting& each : ended) // a handler that throws must not end the others
    std::move(each.handler).complete({});
}

void ring_producer::on_read(const error_code& ec)
{
  if (ec)
    return end(ec);
  if (end_)
    return;
  std::uint64_t count = 0;
  std::memcpy(&count, staging_.data() + ring_layout::consumed_offset, sizeof count);
  if (!writer_.was_consumed(count))
    return end(error::object_mismatch);
  advance();
}

// The first error, or close(), decides how it ends.
void ring_producer::end(const error_code& ec)
{
  if (end_)
    return;
  end_ = ec;
  accepts_ = false;
  pause_.cancel();
  for (waiting_list* among : {&pushes_, &flushes_})
    for (waiting& each : waiting_list(std::move(*among)))
      std::move(each.handler).complete(ec);
}

void ring_producer::close() noexcept
{
  end(asio::error::operation_aborted);
}

} // namespace rdma::detail::objects
