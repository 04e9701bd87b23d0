//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/rpc/pool_core.hpp"
#include "connect/alarm.hpp"
#include "rpc/call_table.hpp"
#include "rpc/pool_policy.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <mutex>
#include <new>
#include <random>
#include <unordered_map>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using rdma::rpc::call_options;
using rdma::rpc::client_pool_options;

namespace {

// Carries out what the policy decides. The clients' functions never call back before they return,
// so they are called while the mutex is held.
class pool_impl final
  : public pool_core
  , public late_task
{
public:
  pool_impl(const io_executor& executor, const io_executor& inner, const protection_domain& domain,
    const std::vector<endpoint_type>& servers, const client_pool_options& options)
    : executor_(executor)
    , inner_(inner)
    , domain_(domain)
    , servers_(servers)
    , options_(options)
    , alarm_(connection_service::of(inner))
    , policy_(servers.size(), options)
    , members_(policy_.size())
  {
  }
  ~pool_impl() override
  {
    unfinished_.clear_and_dispose([](call* each) { each->remove(); });
  }

  [[nodiscard]] error_code add(call& what) override;
  void submit(call& what, const request& r, const call_options& options) override;
  void withdraw(call& what) noexcept override;
  void cancel(std::uint32_t number) override;
  void cancel() override;
  void close() override;
  [[nodiscard]] bool is_open() const override;

  void on_alarm();

private:
  using lock_type = std::unique_lock<std::mutex>;
  using clock = std::chrono::steady_clock;
  using time_point = call::time_point;

  [[nodiscard]] std::shared_ptr<pool_impl> self()
  {
    return std::static_pointer_cast<pool_impl>(shared_from_this());
  }

  // There may be memory again.
  void run() override;

  // A client that connects or is connected. Its calls and its place in the pool own it.
  struct member
  {
    member(std::size_t at, std::shared_ptr<client_core> client)
      : index(at)
      , core(std::move(client))
    {
    }
    member(const member&) = delete;
    member& operator=(const member&) = delete;
    ~member() { core->close(); }

    const std::size_t index;
    const std::shared_ptr<client_core> core;
  };

  class attempt;
  struct by_deadline
  {
    bool operator()(const call& a, const call& b) const noexcept { return a.deadline < b.deadline; }
  };

  [[nodiscard]] bool repeats(attempt& what, std::size_t connection) const;
  void on_attempt(attempt& what);
  void on_connected(const std::shared_ptr<member>& what, const error_code& ec);
  void place(const lock_type& lock, attempt& what, call_list& done);
  void place_waiting(const lock_type& lock, call_list& done);
  void give(const lock_type& lock, attempt& what, std::size_t connection);
  void wait(const lock_type& lock, attempt& what);
  void stop_waiting(const lock_type& lock, attempt& what);
  void abort(const lock_type& lock, attempt& what, call_list& done);
  void abort_all(const lock_type& lock, call_list& done);
  void end(const lock_type& lock, attempt& what, const error_code& ec, call_list& done);
  void finish(call_list& done, bool here);
  void finish_soon(call& what) noexcept;
  void open_connections(const lock_type& lock);
  void on_failure(const lock_type& lock, std::size_t connection, const error_code& ec);
  void retire(const lock_type& lock, std::size_t connection);
  void set_alarm(const lock_type& lock);
  void open_soon();
  [[nodiscard]] double random() { return std::uniform_real_distribution<>()(random_); }

  const io_executor executor_;
  const io_executor inner_;
  const protection_domain domain_;
  const std::vector<endpoint_type> servers_;
  const client_pool_options options_;
  const process_mark process_;
  alarm alarm_;

  mutable std::mutex mutex_;
  pool_policy policy_;
  std::minstd_rand random_{std::random_device()()};
  std::vector<std::shared_ptr<member>> members_;                      // null: closed
  std::unordered_map<std::uint32_t, std::unique_ptr<attempt>> calls_; // of the program
  std::uint32_t last_number_ = 0;
  call_list waiting_; // in the order of their arrival
  std::size_t waiting_count_ = 0;
  boost::intrusive::multiset<call, boost::intrusive::base_hook<deadline_hook>,
    boost::intrusive::compare<by_deadline>>
    deadlines_;                                     // of those that wait
  error_code connect_error_ = error::not_connected; // the last one
  time_point alarm_at_ = time_point::max();
  bool closed_ = false;

  std::mutex unfinished_mutex_;
  call_list unfinished_; // there was no memory to post their next steps
};

// A call of the program, as a call of one client after the other.
class pool_impl::attempt final : public call
{
public:
  explicit attempt(call& caller)
    : key(caller.number)
    , caller_(&caller)
  {
  }
  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;
  ~attempt()
  {
    if (caller_ != nullptr)
      caller_->remove();
  }

  error_code take_result(const error_code& ec, std::span<const std::byte> reply) noexcept override
  {
    result = ec;
    if (progress == progress_type::answered && caller_ != nullptr)
      caller_->store(ec, reply);
    return ec;
  }

  void finish(bool here) override
  {
    auto of = std::exchange(pool, nullptr);
    if (here)
      return of->on_attempt(*this);
    try
    {
      asio::post(of->executor_, [this, of] { of->on_attempt(*this); });
    }
    catch (const std::bad_alloc&)
    {
      pool = std::move(of);
      throw;
    }
  }

  void remove() noexcept override {} // the pool owns it

  // Null if it was taken.
  [[nodiscard]] call* take_caller() noexcept { return std::exchange(caller_, nullptr); }

  const std::uint32_t key; // of the pool's calls
  pool_policy::call_state state;
  const rdma::rpc::detail::method_description* method = nullptr;
  std::vector<std::byte> content; // the encoded request
  call_options options;
  time_point until = time_point::max();
  bool waits = false;
  std::shared_ptr<member> by;      // a client has it
  std::shared_ptr<pool_impl> pool; // while a client has it
  error_code result;               // of the client
  error_code aborted;              // is not repeated, and ends with this error

private:
  call* caller_;
};

// --- calls of the program ---

error_code pool_impl::add(call& what)
{
  if (process_.foreign())
    return error::forked;
  const lock_type lock(mutex_);
  if (closed_)
    return error::closed;
  do
    what.number = ++last_number_;
  while (calls_.contains(what.number));
  try
  {
    auto& made = calls_[what.number];
    made = std::make_unique<attempt>(what);
    policy_.begin(made->state);
  }
  catch (const std::bad_alloc&)
  {
    calls_.erase(what.number);
    return asio::error::no_memory;
  }
  return {};
}

void pool_impl::submit(call& what, const request& r, const call_options& options)
{
  lock_type lock(mutex_);
  attempt& made = *calls_.at(what.number);
  rdma::rpc::output content(made.content);
  r.encode(r.value, content);
  made.method = r.method;
  made.options = options;
  made.state.idempotent = options.idempotent;
  const auto now = clock::now();
  if (options.timeout.count() > 0 && options.timeout < time_point::max() - now)
    made.until = now + options.timeout;
  call_list done;
  place(lock, made, done);
  lock.unlock();
  finish(done, false);
}

// Its function has thrown.
void pool_impl::withdraw(call& what) noexcept
{
  const lock_type lock(mutex_);
  attempt& made = *calls_.at(what.number);
  static_cast<void>(made.take_caller());
  call_list none;
  if (made.by || made.waits)
    abort(lock, made, none);
  else
    end(lock, made, {}, none);
}

void pool_impl::cancel(std::uint32_t number)
{
  if (process_.foreign())
    return;
  call_list done;
  {
    const lock_type lock(mutex_);
    if (const auto found = calls_.find(number); found != calls_.end())
      abort(lock, *found->second, done);
  }
  finish(done, false);
}

void pool_impl::cancel()
{
  if (process_.foreign())
    return;
  call_list done;
  {
    const lock_type lock(mutex_);
    abort_all(lock, done);
  }
  finish(done, false);
}

void pool_impl::close()
{
  if (process_.foreign())
    return; // the parent uses the connections
  call_list done;
  {
    const lock_type lock(mutex_);
    closed_ = true;
    abort_all(lock, done);
    // Ends also those whose server has not confirmed that it does not use their memory any more.
    for (const auto& [number, each] : calls_)
      if (each->by)
        each->by->core->close();
    for (auto& each : members_)
      each = nullptr;
  }
  finish(done, false);
}

bool pool_impl::is_open() const
{
  if (process_.foreign())
    return false;
  const lock_type lock(mutex_);
  return !closed_;
}

// --- the way of a call ---

// Gives the call to a connection, lets it wait, or ends it.
void pool_impl::place(const lock_type& lock, attempt& what, call_list& done)
try
{
  using enum pool_policy::placement::kind;
  for (;;)
  {
    open_connections(lock);
    const auto to = policy_.place(what.state, static_cast<std::uint32_t>(random_()));
    if (to.is == ends)
      return end(lock, what,
        what.state.overloaded ? make_error_code(error::overloaded) : connect_error_, done);
    if (to.is == waits)
    {
      if (what.state.given == 0 && waiting_count_ >= options_.queue)
        return end(lock, what, error::overloaded, done);
      return wait(lock, what);
    }
    // A client without calls does not notice the end of its connection.
    if (policy_.calls(to.index) != 0 || members_[to.index]->core->can_call())
      return give(lock, what, to.index);
    retire(lock, to.index);
  }
}
catch (const std::bad_alloc&)
{
  end(lock, what, asio::error::no_memory, done);
}

void pool_impl::give(const lock_type&, attempt& what, std::size_t connection)
{
  policy_.give(what.state, connection);
  what.by = members_[connection];
  what.pool = self();
  what.progress = call::progress_type::kept;
  what.number = UINT32_MAX; // none
  what.deadline = time_point::max();
  what.kept.clear();
  what.options.timeout = what.until == time_point::max()
    ? std::chrono::nanoseconds(0)
    : std::max<std::chrono::nanoseconds>(what.until - clock::now(), std::chrono::nanoseconds(1));
  client_core& client = *what.by->core;
  error_code ec;
  bool is_added = false;
  try
  {
    ec = client.add(what);
    is_added = !ec;
    if (is_added)
      return client.submit(what,
        {&what.content,
          [](const void* content, rdma::rpc::output& to)
          { to.append(*static_cast<const std::vector<std::byte>*>(content)); },
          what.method},
        what.options);
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  if (is_added)
    client.withdraw(what);
  what.store(ec, {});
  finish_soon(what);
}

bool pool_impl::repeats(attempt& what, std::size_t connection) const
try
{
  return policy_.repeats(what.state, policy_.server_of(connection), what.result, what.progress);
}
catch (const std::bad_alloc&)
{
  return false;
}

void pool_impl::on_attempt(attempt& what)
{
  if (process_.foreign())
    return; // a thread of the parent may hold the mutex
  call_list done;
  {
    const lock_type lock(mutex_);
    const auto now = clock::now();
    const auto by = std::exchange(what.by, nullptr);
    const bool answered = what.progress == call::progress_type::answered;
    if (members_[by->index] == by)
    {
      policy_.take_back(by->index, what.progress);
      // After a server's goodbye its connection still answers the calls that it has.
      if (!by->core->is_open() || (!answered && what.result == error::peer_closed))
        retire(lock, by->index);
    }
    if (answered)
      end(lock, what, {}, done);
    else if (what.aborted)
      end(lock, what, what.aborted, done);
    else if (what.until <= now)
      end(lock, what, asio::error::timed_out, done);
    else if (repeats(what, by->index))
      place(lock, what, done);
    else
      end(lock, what, what.result, done);
  }
  finish(done, true);
}

void pool_impl::wait(const lock_type& lock, attempt& what)
{
  what.deadline = what.until;
  if (what.deadline != time_point::max())
    deadlines_.insert(what);
  waiting_.push_back(what);
  ++waiting_count_;
  what.waits = true;
  set_alarm(lock);
}

void pool_impl::stop_waiting(const lock_type&, attempt& what)
{
  if (static_cast<const deadline_hook&>(what).is_linked())
    deadlines_.erase(deadlines_.iterator_to(what));
  waiting_.erase(waiting_.iterator_to(what));
  --waiting_count_;
  what.waits = false;
}

void pool_impl::place_waiting(const lock_type& lock, call_list& done)
{
  for (std::size_t left = waiting_count_; left != 0; --left)
  {
    auto& next = static_cast<attempt&>(waiting_.front());
    stop_waiting(lock, next);
    place(lock, next, done);
  }
}

// The program does not want the call any more. A client ends it at once, too.
void pool_impl::abort(const lock_type& lock, attempt& what, call_list& done)
{
  if (what.waits)
  {
    stop_waiting(lock, what);
    end(lock, what, asio::error::operation_aborted, done);
  }
  else if (what.by)
  {
    what.aborted = asio::error::operation_aborted;
    what.by->core->cancel(what.number);
  }
}

void pool_impl::abort_all(const lock_type& lock, call_list& done)
{
  while (!waiting_.empty())
    abort(lock, static_cast<attempt&>(waiting_.front()), done);
  for (const auto& [number, each] : calls_)
    abort(lock, *each, done);
}

// The result of a call that was answered is stored already.
void pool_impl::end(const lock_type& lock, attempt& what, const error_code& ec, call_list& done)
{
  if (call* const caller = what.take_caller())
  {
    if (ec)
      caller->store(ec, {});
    done.push_back(*caller);
  }
  policy_.end(clock::now());
  calls_.erase(what.key);
  set_alarm(lock);
}

// Calls the handlers, without the mutex.
void pool_impl::finish(call_list& done, bool here)
{
  while (!done.empty())
  {
    call& next = done.front();
    done.pop_front();
    if (here)
      next.finish(true);
    else
      finish_soon(next);
  }
}

// Without memory, the next step comes later. With and without the mutex.
void pool_impl::finish_soon(call& what) noexcept
try
{
  what.finish(false);
}
catch (const std::bad_alloc&)
{
  {
    const std::lock_guard lock(unfinished_mutex_);
    unfinished_.push_back(what);
  }
  static_cast<void>(run_later(executor_, self())); // there is a thread: of the alarm
}

void pool_impl::run()
{
  call_list all;
  {
    const std::lock_guard lock(unfinished_mutex_);
    all.swap(unfinished_);
  }
  finish(all, false);
  on_alarm();
}

// --- connections ---

void pool_impl::open_connections(const lock_type& lock)
{
  const auto now = clock::now();
  while (const auto next = policy_.next_to_open(now))
    try
    {
      const auto made = std::make_shared<member>(
        *next, client_core::make(executor_, inner_, domain_, options_.client));
      made->core->connect(executor_, servers_[policy_.server_of(*next)],
        [self = self(), to = std::weak_ptr(made)](const error_code& ec)
        {
          if (const auto found = to.lock())
            self->on_connected(found, ec);
        });
      members_[*next] = made;
    }
    catch (const system_error& e)
    {
      on_failure(lock, *next, e.code());
    }
    catch (const std::bad_alloc&)
    {
      on_failure(lock, *next, asio::error::no_memory);
    }
}

void pool_impl::on_failure(const lock_type&, std::size_t connection, const error_code& ec)
{
  connect_error_ = ec;
  members_[connection] = nullptr;
  policy_.not_opened(connection, clock::now(), random());
}

void pool_impl::on_connected(const std::shared_ptr<member>& what, const error_code& ec)
{
  if (process_.foreign())
    return;
  call_list done;
  {
    const lock_type lock(mutex_);
    if (closed_)
      return;
    if (ec)
      on_failure(lock, what->index, ec);
    else
      policy_.opened(what->index, clock::now());
    open_connections(lock);
    place_waiting(lock, done);
    set_alarm(lock);
  }
  finish(done, false);
}

// The connection takes no more calls. It ends with those that it has.
void pool_impl::retire(const lock_type&, std::size_t connection)
{
  members_[connection] = nullptr;
  policy_.ended(connection, clock::now(), random());
}

// --- time ---

void pool_impl::set_alarm(const lock_type&)
{
  auto next = policy_.idle_until();
  if (!deadlines_.empty())
    next = std::min(next, deadlines_.begin()->deadline);
  if (waiting_count_ != 0)
    next = std::min(next, policy_.opens_at());
  if (closed_ || next >= alarm_at_)
    return;
  alarm_.set(next, std::weak_ptr(self()));
  alarm_at_ = next;
}

void pool_impl::open_soon()
try
{
  asio::post(executor_,
    [self = self()]
    {
      call_list ended;
      {
        const lock_type lock(self->mutex_);
        self->place_waiting(lock, ended);
        self->set_alarm(lock);
      }
      self->finish(ended, false);
    });
}
catch (const std::bad_alloc&)
{
  static_cast<void>(run_later(executor_, self())); // as in finish_soon()
}

// Idle connections are closed here, because nothing may run the program's execution context.
void pool_impl::on_alarm()
{
  call_list done;
  {
    const lock_type lock(mutex_);
    const auto now = clock::now();
    alarm_at_ = time_point::max();
    while (!deadlines_.empty() && deadlines_.begin()->deadline <= now)
    {
      auto& late = static_cast<attempt&>(*deadlines_.begin());
      stop_waiting(lock, late);
      end(lock, late, asio::error::timed_out, done);
    }
    while (const auto idle = policy_.next_to_close(now))
      members_[*idle] = nullptr;
    if (waiting_count_ != 0 && policy_.opens_at() <= now)
      open_soon();
    else
      set_alarm(lock);
  }
  finish(done, false);
}

} // namespace

std::shared_ptr<pool_core> pool_core::make(const io_executor& executor, const io_executor& inner,
  const protection_domain& domain, const std::vector<endpoint_type>& servers,
  const client_pool_options& options)
{
  if (servers.empty() || options.connections == 0 || options.attempts == 0
    || options.backoff_min.count() <= 0 || options.backoff_max < options.backoff_min)
    throw system_error(asio::error::invalid_argument, "rpc::client_pool");
  static_cast<void>(client_core::make(executor, inner, domain, options.client)); // checks them
  return std::make_shared<pool_impl>(executor, inner, domain, servers, options);
}

} // namespace rdma::detail::rpc
