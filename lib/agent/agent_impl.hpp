//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_AGENT_IMPL_HPP
#define BOOST_RDMA_LIB_AGENT_AGENT_IMPL_HPP

#include "agent/agent_channel.hpp"
#include "agent/leases.hpp"
#include "agent/lessor_core.hpp"
#include "agent/message.hpp"
#include "agent/request_table.hpp"
#include "boost_rdma/detail/agent_core.hpp"
#include "boost_rdma/detail/process_mark.hpp"
#include "completion/agent_attachment.hpp"
#include "completion/queue_pair_core.hpp"
#include "connect/alarm.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rdma::detail {

// The agent of one queue pair: the requests of this side to the peer (agent_requests.cpp), and the
// leases of this side's memory that the peer has (agent_leases.cpp).
//
// The queue pair owns the agent. The agent refers weakly to the queue pair, and owns its
// agent_channel, whose receives refer weakly to the agent. Lock order: this mutex before those of
// queue pairs. No handler is called and no lease is destroyed while it is held.
class agent_impl final
  : public agent_core
  , public agent_attachment
  , public agent_channel_listener
  , public std::enable_shared_from_this<agent_impl>
{
public:
  static std::shared_ptr<agent_impl> make(
    const std::shared_ptr<queue_pair_core>& beside, std::shared_ptr<lessor_core> lessor);

  agent_impl(const std::shared_ptr<queue_pair_core>& beside, std::shared_ptr<lessor_core> lessor);
  ~agent_impl() override;

  void allocate(const io_executor& executor, std::size_t size, const allocation_options& options,
    handler_of<remote_memory> handler) override;
  void renew(const io_executor& executor, const std::shared_ptr<held_lease>& lease,
    std::chrono::milliseconds lifetime, std::chrono::milliseconds time_limit,
    handler_of<> handler) override;
  void release(const io_executor& executor, std::shared_ptr<held_lease> lease,
    std::chrono::milliseconds time_limit, handler_of<> handler) override;
  void hand_over(const io_executor& executor, std::shared_ptr<held_lease> lease,
    std::chrono::milliseconds time_limit, handler_of<> handler) override;
  void lend(const io_executor& executor, const mutable_buffer& region, const lend_options& options,
    handler_of<loan> handler) override;
  void wait_return(const io_executor& executor, const std::shared_ptr<lent_lease>& lease,
    handler_of<> handler) override;
  void receive_remote(const io_executor& executor, handler_of<remote_memory> handler) override;
  void receive_local(const io_executor& executor, handler_of<registered_buffer> handler) override;
  void drop(held_lease& lease) noexcept override;
  void take_back(lent_lease& lease) noexcept override;

  void on_agent_channel(agent_channel_event event, const std::string& text) override;
  void on_end(const error_code& reason) noexcept override;
  void abandon() noexcept override;

  void on_message(const agent_message& message, std::uint32_t receive_index) override;
  void on_answered(std::uint32_t receive_index) override;
  void on_malformed() override;
  void on_channel_failed(const agent_channel& which, const error_code& ec) override;

  void on_alarm();

private:
  using clock = lease_clock;
  using lock_type = std::unique_lock<std::mutex>;

  // Receives the outcome of a request. If ec is set, `answer` has no meaning. Called with the mutex
  // held. It may release the mutex and call the handler immediately.
  using answer_handler =
    boost::asio::any_completion_handler<void(lock_type& lock, error_code ec, agent_message answer)>;

  using inbox_list = std::list<std::pair<std::uint32_t, leased_memory>>;

  template <class Step>
  void or_end(lock_type& lock, Step step);

  // Requests.
  template <class... Results, class Start>
  void begin(const io_executor& executor, std::chrono::milliseconds time_limit,
    handler_of<Results...> handler, Start start);
  void expect(std::uint32_t id, clock::time_point deadline, answer_handler done);
  void ask(std::uint32_t id, agent_message question);
  void ask_next();
  void give_up(lock_type& lock, std::uint32_t id, const error_code& ec);
  void withdraw(std::uint32_t id);
  void on_answer(lock_type& lock, const agent_message& answer, std::uint32_t receive_index);
  void give_back(held_lease& lease);
  void ask_about(const std::shared_ptr<held_lease>& lease, agent_message question,
    const io_executor& executor, std::chrono::milliseconds time_limit, handler_of<> handler);
  void on_lend(lock_type& lock, const agent_message& message, std::uint32_t receive_index);
  void on_recall(lock_type& lock, const agent_message& message, std::uint32_t receive_index);
  template <class... Results>
  void assign_slot(handler_of<Results...>& handler, std::uint32_t id);

  // Leases of this side's memory.
  using exposed_handler = boost::asio::any_completion_handler<void(error_code, remote_buffer)>;
  struct bound;
  void expose(std::uint64_t id, owned_lease lease, exposed_handler handler);
  void expose_by_window(std::uint64_t id, owned_lease lease, exposed_handler& handler);
  void expose_by_registration(std::uint64_t id, owned_lease lease, exposed_handler& handler);
  [[nodiscard]] memory_pool& pool_of_leases(bool quick);
  void on_allocate(lock_type& lock, const agent_message& message, std::uint32_t receive_index);
  struct lease_making;
  void make_elsewhere(
    memory_pool& from, const agent_message& message, std::uint64_t id, std::uint32_t receive_index);
  refusal_status make_lease(memory_pool& from, const agent_message& message, owned_lease& lease);
  void register_range(owned_lease& lease) const;
  void grant(const agent_message& message, std::uint64_t id, std::uint32_t receive_index,
    refusal_status why, owned_lease lease);
  [[nodiscard]] refusal_status obstacle_to(const agent_message& message) const;
  void on_granted(const agent_message& asked, std::uint64_t id, std::uint32_t receive_index,
    const error_code& ec, const remote_buffer& exposed);
  void on_lendable(
    std::uint32_t id, std::uint64_t number, const error_code& ec, const remote_buffer& exposed);
  void on_renew(lock_type& lock, const agent_message& message, std::uint32_t receive_index);
  void on_release(lock_type& lock, const agent_message& message, std::uint32_t receive_index);
  void on_hand_over(lock_type& lock, const agent_message& message, std::uint32_t receive_index);
  [[nodiscard]] std::optional<owned_lease> take(std::uint64_t id);
  void conclude(owned_lease over, const error_code& ec);
  void release(leased_memory memory);
  void recall(std::uint64_t id, const owned_lease& lease) noexcept;

  void answer(const agent_message& question, std::uint32_t receive_index, refusal_status status);
  void open_channel();
  void offer_channel();
  void connect_channel(lock_type& lock, const std::string& text);
  void break_off(
    lock_type& lock, std::string_view why, const error_code& outcome = error::agent_ended);
  void tell_end(std::string_view why);
  void tell_late_end();
  void post_end();
  void end_in_turn(const error_code& reason, int attempts);
  void end(const error_code& reason);
  void update() noexcept;
  [[nodiscard]] clock::time_point next_time() const noexcept;
  void end_what_is_due(lock_type& lock);
  [[nodiscard]] error_code obstacle() const;

  const std::weak_ptr<queue_pair_core> core_;
  const rdma::context context_;
  const io_executor executor_;
  const std::size_t device_index_;
  const bool has_windows_;
  const std::shared_ptr<lessor_core> lessor_;
  const std::shared_ptr<lessor_charge::peer_share> share_ =
    std::make_shared<lessor_charge::peer_share>();
  const process_mark process_;

  std::mutex mutex_;
  std::optional<error_code> ended_;
  std::shared_ptr<agent_channel> channel_;
  bool offered_ = false;
  bool ready_ = false; // the agent_channel is connected
  // Set when the agent_channel fails: the connection should report the reason before this time.
  clock::time_point broken_off_at_ = clock::time_point::max();
  alarm alarm_;
  error_code reason_;                                      // of the end of the connection
  std::shared_ptr<late_call<agent_impl>> late_end_;        // until on_end()
  const std::shared_ptr<late_call<agent_impl>> late_news_; // for the peer: the agent has ended
  clock::time_point alarm_at_ = clock::time_point::max();

  request_table<answer_handler> requests_;
  held_leases<held_lease> held_;
  waiting_list<remote_memory> waits_remote_;

  // Null: none yet, or the lessor's pool is used. No thread waits for a pool's mutex while another
  // makes a large arena.
  std::unique_ptr<memory_pool> quick_pool_; // used by the I/O thread
  std::unique_ptr<memory_pool> large_pool_; // used by lease_worker
  owned_leases<owned_lease> owned_;
  // With the receive_index of the answer, until the peer has received it.
  inbox_list handing_over_;
  inbox_list handed_to_us_;
  waiting_list<registered_buffer> waits_local_;
};

// Called before other threads can see the operation: only the initiating thread may use the slot.
template <class... Results>
void agent_impl::assign_slot(handler_of<Results...>& handler, std::uint32_t id)
{
  on_cancellation(boost::asio::get_associated_cancellation_slot(handler), weak_from_this(),
    [id](agent_impl& self) { self.withdraw(id); });
}

// Runs a step. Without memory for it, the agent ends. Handlers of the program that throw are not
// called in it.
template <class Step>
void agent_impl::or_end(lock_type& lock, Step step)
try
{
  step();
}
catch (const std::bad_alloc&)
{
  if (!lock)
    lock.lock();
  if (!ended_)
    break_off(lock, "there is no memory", boost::asio::error::no_memory);
}

// Calls start(lock, id, deadline, waiting handler) with the mutex held. An exception from it
// becomes the outcome of the operation, if that has been registered.
template <class... Results, class Start>
void agent_impl::begin(const io_executor& executor, std::chrono::milliseconds time_limit,
  handler_of<Results...> handler, Start start)
{
  if (process_.foreign())
    return refuse_request<Results...>(executor, error::forked, std::move(handler));
  lock_type lock(mutex_);
  error_code ec = obstacle();
  if (!ec)
    try
    {
      offer_channel();
    }
    catch (const system_error& e)
    {
      ec = e.code();
    }
    catch (const std::bad_alloc&)
    {
      ec = boost::asio::error::no_memory;
    }
  if (ec)
  {
    lock.unlock();
    return refuse_request<Results...>(executor, ec, std::move(handler));
  }
  const std::uint32_t id = requests_.next_id();
  assign_slot(handler, id);
  try
  {
    start(lock, id, end_of(clock::now(), time_limit),
      waiting_handler<Results...>(executor, std::move(handler)));
  }
  catch (const std::bad_alloc&)
  {
    if (!lock)
      lock.lock();
    if (!requests_.contains(id))
      throw;
    give_up(lock, id, boost::asio::error::no_memory);
  }
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_AGENT_IMPL_HPP
