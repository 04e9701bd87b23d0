//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_queue_impl.hpp"

#include "completion/completion_service.hpp"
#include "verbs/software/software.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace rdma::detail {
completion_queue_impl::completion_queue_impl(boost::asio::any_io_executor executor,
  std::shared_ptr<device_set> devices, std::size_t device_index,
  const completion_queue_options& options)
  : executor_(std::move(executor))
  , devices_(std::move(devices))
  , device_index_(device_index)
  , mode_(options.mode)
  , spin_time_(options.spin_time)
  , spin_slice_(options.spin_slice)
{
  service_ = &completion_service::of(executor_);
  try
  {
    create(options.depth);
    devices_->activity.add(counters_);
    service_->add(this);
  }
  catch (...)
  {
    destroy();
    throw;
  }
}

completion_queue_impl::~completion_queue_impl()
{
  if (service_ != nullptr)
    service_->remove(this);
  destroy();
}

void completion_queue_impl::create(std::uint32_t depth)
{
  const verbs::api& api = device().api();
  if (const error_code ec = device().state())
    throw system_error(ec, "cannot create a completion queue");
  const auto limit = static_cast<std::uint32_t>(device().attributes().max_cqe);
  if (depth > limit)
    throw system_error(error::queue_too_deep, "cannot create a completion queue");
  depth = std::max(depth, 1u);
  errno = 0;
  if (mode() != completion_mode::manual)
  {
    channel_ = api.create_comp_channel(device().native());
    if (channel_ == nullptr)
      throw system_error(last_verbs_error(), "cannot create a completion channel");
    const int flags = ::fcntl(channel_->fd, F_GETFL);
    if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
      throw system_error(last_verbs_error(), "cannot make a completion channel non-blocking");
    if (has_chain())
      descriptor_ =
        std::make_unique<boost::asio::posix::stream_descriptor>(executor_, channel_descriptor());
    else if (sleep_end_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); sleep_end_ < 0)
      throw system_error(last_verbs_error(), "cannot make a descriptor to sleep on");
  }
  native_ = api.create_cq(device().native(), static_cast<int>(depth), nullptr, channel_, 0);
  if (native_ == nullptr)
    throw system_error(last_verbs_error(), "cannot create a completion queue");
  depth_ = static_cast<std::uint32_t>(native_->cqe);
}

void completion_queue_impl::destroy() noexcept
{
  devices_->activity.remove(counters_);
  const verbs::api& api = device().api();
  if (forked())
  {
    // All three belong to the parent. Asio's descriptor would leave the parent's epoll set.
    static_cast<void>(descriptor_.release());
    return;
  }
  device().events().unwatch(native_);
  if (descriptor_)
    descriptor_->release(); // the descriptor belongs to the channel
  descriptor_.reset();
  if (native_ != nullptr)
    api.destroy_cq(std::exchange(native_, nullptr));
  if (channel_ != nullptr)
    api.destroy_comp_channel(std::exchange(channel_, nullptr));
  if (sleep_end_ >= 0)
    ::close(std::exchange(sleep_end_, -1));
}

int completion_queue_impl::channel_descriptor() const
{
  if (channel_ == nullptr)
    return -1;
  return device().kind() == device_kind::software ? software::wait_descriptor(channel_)
                                                  : channel_->fd;
}

std::array<int, 2> completion_queue_impl::sleep_descriptors() const
{
  return {channel_descriptor(), sleep_end_};
}

void completion_queue_impl::mode(completion_mode mode) noexcept
{
  if (mode == completion_mode::manual || mode == completion_mode::external || !has_chain())
    return;
  mode_.store(mode, std::memory_order_relaxed);
  wake(); // for a waiting chain
}

executor_relation completion_queue_impl::executor_relation_of(
  const boost::asio::any_io_executor& executor, bool bare) const
{
  namespace execution = boost::asio::execution;
  if (mode() == completion_mode::manual // it keeps nothing running
    || &boost::asio::query(executor, execution::context)
      != &boost::asio::query(executor_, execution::context))
    return executor_relation::elsewhere;
  return bare && executor == executor_ ? executor_relation::same_executor
                                       : executor_relation::same_context;
}

void completion_queue_impl::reserve(std::uint32_t completions, error_code& ec)
{
  ec = {};
  std::lock_guard lock(sources_mutex_);
  if (failed_)
  {
    ec = error::completion_queue_failed;
    return;
  }
  const auto limit = static_cast<std::uint32_t>(device().attributes().max_cqe);
  if (completions > limit - std::min(limit, reserved_))
  {
    ec = error::queue_too_deep;
    return;
  }
  const std::uint32_t wanted = reserved_ + completions;
  if (wanted > depth_)
  {
    // Doubled, so that many queue pairs cost few resizes.
    const std::uint32_t depth = std::min(limit, std::max(wanted, 2 * depth_));
    if (const int error = device().api().resize_cq(native_, static_cast<int>(depth)); error != 0)
    {
      ec.assign(error, boost::system::system_category());
      return;
    }
    depth_ = static_cast<std::uint32_t>(native_->cqe);
  }
  reserved_ = wanted;
}

bool completion_queue_impl::can_grow() const
{
  const int error = device().api().resize_cq(native_, static_cast<int>(depth_));
  return error != EOPNOTSUPP && error != ENOSYS;
}

void completion_queue_impl::unreserve(std::uint32_t completions) noexcept
{
  std::lock_guard lock(sources_mutex_);
  reserved_ -= completions;
}

std::uint32_t completion_queue_impl::add(std::shared_ptr<work_source> source, error_code& ec)
{
  std::lock_guard lock(sources_mutex_);
  if (failed_)
  {
    ec = error::completion_queue_failed;
    return 0;
  }
  if (!watched_)
  {
    try
    {
      device().events().watch(native_, weak_from_this());
      watched_ = true;
    }
    catch (const system_error& e)
    {
      ec = e.code();
      return 0;
    }
  }
  // Room for all sources, so that remove() does not throw.
  if (const std::size_t most = removed_.size() + sources_.size() + 1; removed_.capacity() < most)
    removed_.reserve(most * 2);
  const auto index = sources_.add(std::move(source));
  if (!index)
    ec = error::queue_too_deep;
  return index.value_or(0);
}

// The polling thread finds sources without a lock, and without a reference. A source that is
// removed meanwhile is kept until that thread has finished: either it finds the entry vacant, or
// this function sees that it polls. Hence seq_cst in both.
void completion_queue_impl::remove(std::uint32_t source_index) noexcept
{
  std::shared_ptr<work_source> removed; // destroyed after the lock
  const std::lock_guard lock(sources_mutex_);
  removed = sources_.remove(source_index);
  const polling_state seen = polling_.load(std::memory_order_seq_cst);
  const bool shuts_down = shut_down_.load(std::memory_order_relaxed); // it keeps all sources
  if (!removed
    || (!shuts_down && (seen == polling_state::nobody || seen == polling_state::in_handlers)))
    return;
  removed_.push_back(std::move(removed));
  if (shuts_down)
    return;
  has_removed_.store(true, std::memory_order_seq_cst);
  // The thread may have finished before it could see has_removed_.
  const polling_state now = polling_.load(std::memory_order_seq_cst);
  if (now != polling_state::on_device && now != polling_state::in_sources)
  {
    removed = std::move(removed_.back());
    removed_.pop_back();
  }
}

// The polling thread has finished with its sources.
void completion_queue_impl::leave_sources(polling_state next) noexcept
{
  polling_.exchange(next, std::memory_order_seq_cst);
  while (has_removed_.load(std::memory_order_seq_cst))
  {
    std::shared_ptr<work_source> last; // destroyed after the lock
    const std::lock_guard lock(sources_mutex_);
    // Another thread that polls by now may use them, and leaves them later.
    if (const polling_state now = polling_.load(std::memory_order_seq_cst);
        now == polling_state::on_device || now == polling_state::in_sources)
      return;
    if (removed_.empty())
    {
      has_removed_.store(false, std::memory_order_relaxed);
      return;
    }
    last = std::move(removed_.back());
    removed_.pop_back();
  }
}

void completion_queue_impl::defer(operation* op)
{
  {
    std::lock_guard lock(deferred_mutex_);
    deferred_.push_back(op);
  }
  // seq_cst, here and in go_idle() and go_waiting(): either they see this, or kick() sees their
  // state
  has_deferred_.store(true, std::memory_order_seq_cst);
  kick();
  wake_sleepers();
}

void completion_queue_impl::refill()
{
  // The load comes first: the exchange alone would take the cache line from deferring threads each
  // time.
  if (!has_deferred_.load(std::memory_order_relaxed)
    || !has_deferred_.exchange(false, std::memory_order_acquire))
    return;
  std::lock_guard lock(deferred_mutex_);
  while (operation* op = deferred_.pop_front())
    ready_.push_back(op);
}

// Called by the polling thread. It needs native_mutex_ only while another thread takes completions:
// that thread increments rescues_ and then reads polling_; this one has set polling_ and then reads
// rescues_.
int completion_queue_impl::take_completions(ibv_wc* to, int count)
{
  if (forked())
    return 0; // they belong to the parent, or the child has no copy of the memory (MADV_DONTFORK)
  if (rescues_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    return take_rescued(to, count);
  return ibv_poll_cq(native_, count, to);
}

int completion_queue_impl::take_rescued(ibv_wc* to, int count)
{
  polling_.store(polling_state::in_sources, std::memory_order_seq_cst);
  const std::lock_guard lock(native_mutex_);
  if (rescued_.empty())
    return ibv_poll_cq(native_, count, to);
  const auto n = std::min(static_cast<std::size_t>(count), rescued_.size() - rescued_taken_);
  std::copy_n(rescued_.begin() + static_cast<std::ptrdiff_t>(rescued_taken_), n, to);
  rescued_taken_ += n;
  note_rescued(lock);
  return static_cast<int>(n);
}

// Clears rescued_ if all of it is taken. rescues_ includes it otherwise.
void completion_queue_impl::note_rescued(const std::lock_guard<std::mutex>&) noexcept
{
  if (rescued_taken_ == rescued_.size())
  {
    rescued_.clear();
    rescued_taken_ = 0;
  }
  const bool some = !rescued_.empty();
  if (std::exchange(rescue_counted_, some) == some)
    return;
  if (some)
    rescues_.fetch_add(1, std::memory_order_seq_cst);
  else
    rescues_.fetch_sub(1, std::memory_order_seq_cst);
}

// The polling thread takes no lock. A thread that waits for it may have preempted it, perhaps with
// a real-time priority; then yielding alone does not let it run.
void completion_queue_impl::give_way(unsigned attempt) noexcept
{
  constexpr unsigned yields_max = 20;
  if (attempt < yields_max)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

// During its lifetime, completions are taken only with native_mutex_ held.
class completion_queue_impl::rescuing
{
public:
  explicit rescuing(completion_queue_impl& queue) noexcept
    : queue_(queue)
  {
    queue_.rescues_.fetch_add(1, std::memory_order_seq_cst);
    for (unsigned i = 0;
         queue_.polling_.load(std::memory_order_seq_cst) == polling_state::on_device; ++i)
      give_way(i);
  }
  rescuing(const rescuing&) = delete;
  rescuing& operator=(const rescuing&) = delete;
  ~rescuing() { queue_.rescues_.fetch_sub(1, std::memory_order_seq_cst); }

private:
  completion_queue_impl& queue_;
};

void completion_queue_impl::rescue() noexcept
{
  std::array<ibv_wc, 32> completions;
  bool some = false;
  try
  {
    const rescuing now(*this);
    const std::lock_guard lock(native_mutex_);
    for (;;)
    {
      rescued_.reserve(rescued_.size() + completions.size()); // before completions are taken
      const int count =
        ibv_poll_cq(native_, static_cast<int>(completions.size()), completions.data());
      if (count <= 0)
        break;
      rescued_.insert(rescued_.end(), completions.begin(), completions.begin() + count);
      note_rescued(lock);
      some = true;
    }
  }
  catch (const std::bad_alloc&)
  {
    // The completions in the device's queue are discarded with the queue pair.
  }
  if (!some)
    return;
  has_deferred_.store(true, std::memory_order_seq_cst); // as in defer()
  kick();
}

// Takes what has ended, and then leaves the device and the sources. Returns true if there was a
// completion.
bool completion_queue_impl::collect(operation_list& into, polling_state quiet, polling_state next)
{
  struct leave // also if a source throws bad_alloc
  {
    completion_queue_impl& queue;
    polling_state next;
    ~leave() { queue.leave_sources(next); }
  } last{*this, quiet};
  std::array<ibv_wc, 32> completions;
  const int count = take_completions(completions.data(), static_cast<int>(completions.size()));
  if (count <= 0)
    return false; // a negative count is an overrun, which the queue pairs' async events report
  polling_.store(polling_state::in_sources, std::memory_order_release);
  // take() is called without sources_mutex_: sources take that under their own mutex.
  for (const ibv_wc *first = completions.data(), *end = first + count; first != end;)
  {
    const std::uint32_t index = work_request_name::source_of(first->wr_id);
    const ibv_wc* following = first + 1;
    while (following != end && work_request_name::source_of(following->wr_id) == index)
      ++following;
    if (work_source* source = sources_.find(index)) // null if the queue pair has been removed
      source->take(first, static_cast<std::size_t>(following - first), into);
    first = following;
  }
  last.next = next;
  return true;
}

// Calls the handlers of the library, and takes them out.
std::size_t completion_queue_impl::call_at_once(operation_list& from, bool in_poll)
{
  std::size_t calls = 0;
  for (operation *op = from.front(), *next = nullptr; op != nullptr; op = next)
  {
    next = op->next; // what call_next() adds is none of these
    if (!op->at_once)
      continue;
    from.erase(op);
    ++calls;
    op->complete(op, true, in_poll);
  }
  return calls;
}

completion_queue_impl::round completion_queue_impl::poll(bool in_context)
{
  round result;
  polling_state nobody = polling_state::nobody;
  if (shut_down_.load(std::memory_order_relaxed)
    || !polling_.compare_exchange_strong(
      nobody, polling_state::on_device, std::memory_order_seq_cst))
  {
    result.busy = true;
    return result;
  }
  refill();
  if (ready_.empty())
  {
    result.quiet = !collect(ready_, polling_state::nobody, polling_state::in_handlers);
    if (result.quiet)
      return result;
  }
  else
    leave_sources(polling_state::in_handlers);
  struct guard
  {
    completion_queue_impl& queue;
    ~guard()
    {
      // A handler that threw leaves the rest of its round in ready_, for the chain.
      const bool rest = !queue.ready_.empty();
      queue.leave_handlers();
      if (rest && queue.has_chain())
        queue.wake();
    }
  } leave{*this};
  if (has_at_once_.load(std::memory_order_relaxed))
    result.handlers = call_at_once(ready_, true);
  if (result.handlers != 0)
    wake_sleepers();
  while (!shut_down_.load(std::memory_order_relaxed))
  {
    operation* op = ready_.pop_front();
    if (op == nullptr)
      break;
    ++result.handlers;
    op->complete(op, true, in_context);
  }
  return result;
}

void completion_queue_impl::leave_handlers() noexcept
{
  polling_state expected = polling_state::in_handlers;
  for (unsigned i = 0;
       !polling_.compare_exchange_weak(expected, polling_state::nobody, std::memory_order_seq_cst);
       ++i)
  {
    expected = polling_state::in_handlers;
    give_way(i); // poll_here() of another thread is about to return
  }
}

std::optional<ibv_wc> completion_queue_impl::extract(std::uint64_t work_request)
{
  if (forked())
    return std::nullopt;
  rescue(); // keeps the order: these completions precede later ones of the device
  const std::lock_guard lock(native_mutex_);
  const auto begin = rescued_.begin() + static_cast<std::ptrdiff_t>(rescued_taken_);
  const auto found =
    std::find_if(begin, rescued_.end(), [&](const ibv_wc& wc) { return wc.wr_id == work_request; });
  if (found == rescued_.end())
    return std::nullopt;
  const ibv_wc result = *found;
  rescued_.erase(found);
  note_rescued(lock); // otherwise the last poll before a wait could find nothing
  return result;
}

std::shared_ptr<work_source> completion_queue_impl::next_source(std::uint32_t& index) const noexcept
{
  const std::lock_guard lock(sources_mutex_);
  while (index < sources_.size())
    if (const auto& found = sources_.owner(index++))
      return found;
  return nullptr;
}

void completion_queue_impl::fail_all(
  const error_code& reason, const char* what, const work_source* through) noexcept
{
  for (std::uint32_t i = 0; const auto source = next_source(i);)
    source->fail(reason, what, through);
}

void completion_queue_impl::on_device_event(const async_event& event) noexcept
{
  if (event.type != device_event_type::completion_queue_error)
    return;
  {
    const std::lock_guard lock(sources_mutex_);
    failed_ = true; // the event occurs once: add() reports it to later sources
  }
  fail_all(error::completion_queue_failed, describe(event.type), nullptr);
}

void completion_queue_impl::end_in_child() noexcept
{
  for (std::uint32_t i = 0; const auto source = next_source(i);)
    source->end_in_child();
}

// Destroys the handlers of operations that had ended before the io_context was destroyed.
void completion_queue_impl::destroy_ended() noexcept
{
  do
  {
    refill();
    while (operation* op = ready_.pop_front())
      op->complete(op, false, false);
  } while (has_deferred_.load(std::memory_order_relaxed));
}

} // namespace rdma::detail
