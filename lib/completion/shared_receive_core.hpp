//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_SHARED_RECEIVE_CORE_HPP
#define BOOST_RDMA_LIB_COMPLETION_SHARED_RECEIVE_CORE_HPP

#include "boost_rdma/shared_receive_queue.hpp"
#include "completion/completion_queue_impl.hpp"
#include "completion/posting.hpp"
#include "completion/request_checks.hpp"

namespace rdma::detail {

// A shared receive queue, independent of the types of executor and handlers. The device releases
// its receives when it is destroyed, after the queue pairs that use it.
class shared_receive_core final
  : public work_source
  , public device_listener
{
public:
  shared_receive_core(std::shared_ptr<completion_queue_impl> completions,
    std::shared_ptr<domain_impl> domain, executor_relation where,
    const shared_receive_queue_options& options);
  ~shared_receive_core() override;

  [[nodiscard]] ibv_srq* native() const noexcept { return posting_.shared(); }
  [[nodiscard]] const std::shared_ptr<completion_queue_impl>& completion_queue() const noexcept
  {
    return completions_;
  }
  [[nodiscard]] const std::shared_ptr<domain_impl>& domain() const noexcept { return domain_; }

  void open(); // throws system_error; a shared_ptr must own the object
  void close();

  // A queue pair starts and ends using it.
  void attach();
  void detach();

  void submit(operation* op, const buffer_list& buffers) override;
  void take(const ibv_wc* completions, std::size_t count, operation_list& ended) override;
  void fail(
    const error_code& reason, const char* what, const work_source* through) noexcept override;
  void on_device_event(const async_event& event) noexcept override;
  void abandon() noexcept override;
  void terminate(mutex_held held) override;

private:
  operation* take_one(const ibv_wc& wc, mutex_held held);
  void end(std::unique_lock<std::mutex> lock, const error_code& reason) noexcept;
  void release_posted();
  void unlink(operation* op, mutex_held held) override;
  bool drained(mutex_held held) override;
  void destroy_native() noexcept;

  const std::uint32_t depth_;
  posting posting_;
  std::uint32_t attached_ = 0;
  std::uint32_t reserved_ = 0;
  bool closed_ = false;
  error_code reason_; // of a device error; its receives end with it
  bool abandoned_ = false;
  request_limits limits_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_SHARED_RECEIVE_CORE_HPP
