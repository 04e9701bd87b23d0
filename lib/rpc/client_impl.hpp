//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_CLIENT_IMPL_HPP
#define BOOST_RDMA_LIB_RPC_CLIENT_IMPL_HPP

#include "boost_rdma/detail/rpc/client_core.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/alarm.hpp"
#include "rpc/call_table.hpp"
#include "rpc/connection.hpp"
#include "rpc/exposed_memory.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rdma::detail::rpc {

class client_impl final
  : public client_core
  , public connection
{
public:
  using io_executor = client_core::io_executor;

  client_impl(const io_executor& executor, std::shared_ptr<stream_core> stream, alarm by,
    const rdma::rpc::client_options& options);
  ~client_impl() override
  {
    unfinished_.clear_and_dispose([](call* each) { each->remove(); });
  }

  void connect(
    const io_executor& executor, const endpoint_type& server, plain_handler handler) override;
  [[nodiscard]] error_code add(call& what) override;
  void submit(call& what, const request& r, const rdma::rpc::call_options& options) override;
  void withdraw(call& what) noexcept override;
  [[nodiscard]] std::shared_ptr<flow_core> open_flow(
    const request& r, const rdma::rpc::call_options& options, bool reads) override;
  void cancel(std::uint32_t number) override;
  void cancel() override;
  void close() override;
  [[nodiscard]] bool is_open() const override;
  [[nodiscard]] bool can_call() override;
  [[nodiscard]] transport_choice transport() const override { return stream_->transport(); }
  [[nodiscard]] std::vector<offered_method> methods() const override;

  void on_alarm();

private:
  error_code take(const message& m, std::vector<std::byte>& content) override;
  void on_taken() override;
  void on_room(const lock_type& lock) override
  {
    parts_ = 0;
    send_waiting(lock);
  }
  void on_end(const error_code& ec) noexcept override;
  void on_memory() override;
  [[nodiscard]] bool expects(const lock_type&) const override
  {
    return calls_.submitted() != 0 || connecting_ || !withdrawing_.empty() || ended_bindings_ != 0;
  }
  [[nodiscard]] std::shared_ptr<client_impl> self()
  {
    return std::static_pointer_cast<client_impl>(shared_from_this());
  }

  error_code take_hello(const message& m, std::span<const std::byte> content);
  void take_answer(const message& m, std::span<const std::byte> content);
  error_code take_transfer(const message& m, std::span<const std::byte> content);
  error_code take_items(const message& m, std::vector<std::byte>& content);
  class caller_flow;
  struct bound;
  void on_bound(exposed_memory& what, const error_code& ec);
  void on_connected(const error_code& ec);
  void give_up();
  void end_connecting(const error_code& ec);
  struct method
  {
    std::uint16_t index;
    std::uint64_t request;
    std::uint64_t reply;
  };
  using method_map = std::map<std::string, method, std::less<>>;
  [[nodiscard]] error_code find(const request& r, method_map::const_pointer& found) const;
  const rdma::rpc::trace_context& start_span(
    call& what, std::string_view name, const rdma::rpc::trace_context& parent) const;
  void encode(call& what, const request& r, std::uint16_t index,
    const rdma::rpc::trace_context& trace, std::vector<std::byte>& to);
  void send_waiting(const lock_type& lock);
  void bind(const std::shared_ptr<exposed_memory>& what, queue_pair_core* by);
  [[nodiscard]] bool tell_server(const lock_type& lock, call& what);
  void end_call(lock_type lock, call& what, const error_code& ec);
  void conclude(call& what, bool here);
  void finish_soon(call& what) noexcept;
  void refuse(lock_type lock, call& what, const error_code& ec);
  void set_alarm(const lock_type& lock);

  const std::chrono::milliseconds connect_timeout_;
  const std::size_t unsent_max_;
  const std::uint32_t flow_bytes_;
  const std::shared_ptr<rdma::rpc::tracer> tracer_; // null: none
  alarm alarm_;

  method_map methods_; // of the server
  call_table calls_;
  call_list answered_;             // their handlers are called next
  call_list unfinished_;           // there was no memory to post their handlers
  std::size_t parts_ = 0;          // added to the messages since some have left
  call_list withdrawing_;          // have ended, and the server may use what they expose
  std::size_t ended_bindings_ = 0; // calls that have ended, while their windows are being bound
  call::time_point alarm_at_ = call::time_point::max();
  call::time_point connect_until_ = call::time_point::max();
  std::optional<waiting_handler<>> connecting_;
  bool ready_ = false;
  bool leaving_ = false; // the server takes no more calls
  error_code end_;       // of the connection
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_CLIENT_IMPL_HPP
