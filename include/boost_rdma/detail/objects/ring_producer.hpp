//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_RING_PRODUCER_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_RING_PRODUCER_HPP

#include <boost_rdma/detail/objects/operation.hpp>
#include <boost_rdma/detail/objects/ring.hpp>
#include <boost_rdma/memory_region.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

namespace rdma::detail::objects {

// Carries out the actions of a ring_writer. All calls and handlers are on one executor, which is
// not concurrent.
class ring_producer : public std::enable_shared_from_this<ring_producer>
{
public:
  using io_executor = boost::asio::any_io_executor;
  using end_handler = boost::asio::any_completion_handler<void(error_code)>;
  using words = std::vector<std::uint64_t>;

  // Allocates and registers the copy of the ring. Throws system_error.
  ring_producer(const io_executor& executor, const place& where, const ring_layout& layout);
  ~ring_producer();

  // Posts a handler. May be used without a ring.
  static void complete(const io_executor& executor, end_handler handler, const error_code& ec);

  // Returns false if there is no room, pushes wait, or the ring has ended.
  [[nodiscard]] bool accepts() const noexcept { return accepts_ && writer_.has_room(); }

  // Returns false if the ring does not accept the record.
  template <std::size_t Size>
  [[nodiscard]] bool push(const void* record)
  {
    if (!accepts())
      return false;
    const std::uint64_t number = writer_.next_record();
    ring_code<Size>::encode(record, writer_.layout().parity_of(number), entry(number));
    if (writer_.push())
      advance();
    return true;
  }

  // Of a record in the words of ring_code with parity 0.
  void wait_push(const io_executor& executor, words record, end_handler handler);
  void wait_flush(const io_executor& executor, end_handler handler);

  // Operations that wait end with operation_aborted.
  void close() noexcept;

private:
  struct waiting;
  using waiting_list = std::list<waiting>;
  struct wrote;
  struct was_read;

  [[nodiscard]] std::uint64_t* entry(std::uint64_t record) const noexcept
  {
    const ring_layout& layout = writer_.layout();
    return entries_ + layout.index_of(record) * layout.entry_words;
  }

  void wait(waiting_list& among, waiting entry, boost::asio::cancellation_slot slot);
  void admit(waiting_list& ended);
  void advance();
  void start(const ring_writer::action& what);
  void on_wrote(unsigned slot, const error_code& ec);
  void on_read(const error_code& ec);
  void end(const error_code& ec);

  ring_writer writer_;
  bool accepts_ = true; // no pushes wait, and the ring has not ended
  error_code end_;
  std::uint64_t* entries_;
  const memory_region staging_;
  const place where_;
  const io_executor executor_;
  boost::asio::steady_timer pause_;
  std::uint64_t next_number_ = 0; // of an operation that waits
  waiting_list pushes_;
  waiting_list flushes_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_RING_PRODUCER_HPP
