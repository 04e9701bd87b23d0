//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_queue_impl.hpp"

#include "completion/completion_service.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>

namespace rdma::detail {
namespace {

// wr_id: source index (16) | slot index (15) | last of its operation (1) | generation (32)
constexpr std::uint32_t sources_max = 1u << 16;

} // namespace

completion_queue_impl::completion_queue_impl(boost::asio::any_io_executor executor,
  std::shared_ptr<device_set> devices, std::size_t device_index, const completion_queue_options& options)
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
  }
  catch (...)
  {
    destroy();
    throw;
  }
  service_->add(this);
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
    descriptor_ = std::make_unique<boost::asio::posix::stream_descriptor>(executor_, channel_->fd);
  }
  native_ = api.create_cq(device().native(), static_cast<int>(depth), nullptr, channel_, 0);
  if (native_ == nullptr)
    throw system_error(last_verbs_error(), "cannot create a completion queue");
  depth_ = static_cast<std::uint32_t>(native_->cqe);
}

void completion_queue_impl::destroy() noexcept
{
  const verbs::api& api = device().api();
  if (forked())
  {
    // All three are the parent's; Asio's descriptor would leave the parent's epoll set.
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
}

void completion_queue_impl::mode(completion_mode mode) noexcept
{
  if (mode == completion_mode::manual || this->mode() == completion_mode::manual)
    return;
  mode_.store(mode, std::memory_order_relaxed);
  wake(); // a waiting chain takes notice
}

vicinity completion_queue_impl::vicinity_of(const boost::asio::any_io_executor& executor, bool bare) const
{
  namespace execution = boost::asio::execution;
  if (mode() == completion_mode::manual // which keeps nothing running
    || &boost::asio::query(executor, execution::context) != &boost::asio::query(executor_, execution::context))
    return vicinity::elsewhere;
  return bare && executor == executor_ ? vicinity::same_executor : vicinity::same_context;
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
    // Twofold, so that many queue pairs cost few resizes.
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
  if (!vacant_.empty())
  {
    const std::uint32_t index = vacant_.back();
    vacant_.pop_back();
    sources_[index] = std::move(source);
    return index;
  }
  if (sources_.size() == sources_max)
  {
    ec = error::queue_too_deep;
    return 0;
  }
  vacant_.reserve(sources_.size() + 1); // so that remove() does not throw
  sources_.push_back(std::move(source));
  return static_cast<std::uint32_t>(sources_.size() - 1);
}

void completion_queue_impl::remove(std::uint32_t source_index) noexcept
{
  std::shared_ptr<work_source> removed; // destroyed after the lock
  std::lock_guard lock(sources_mutex_);
  if (source_index >= sources_.size())
    return; // after shutdown()
  removed = std::move(sources_[source_index]);
  vacant_.push_back(source_index);
}

void completion_queue_impl::defer(operation* op)
{
  {
    std::lock_guard lock(deferred_mutex_);
    deferred_.push_back(op);
  }
  // seq_cst, here and in go_idle and go_waiting: either they see this, or kick() sees their state
  has_deferred_.store(true, std::memory_order_seq_cst);
  kick();
}

void completion_queue_impl::refill()
{
  // Looked at first: who polls would take the cache line from who defers each time.
  if (!has_deferred_.load(std::memory_order_relaxed)
    || !has_deferred_.exchange(false, std::memory_order_acquire))
    return;
  std::lock_guard lock(deferred_mutex_);
  while (operation* op = deferred_.pop_front())
    ready_.push_back(op);
}

int completion_queue_impl::take_completions(ibv_wc* to, int count)
{
  if (forked())
    return 0; // the parent's, or memory that the child has no copy of (MADV_DONTFORK)
  const std::lock_guard lock(native_mutex_);
  if (rescued_.empty())
    return ibv_poll_cq(native_, count, to);
  const auto n = std::min(static_cast<std::size_t>(count), rescued_.size() - rescued_taken_);
  std::copy_n(rescued_.begin() + static_cast<std::ptrdiff_t>(rescued_taken_), n, to);
  rescued_taken_ += n;
  if (rescued_taken_ == rescued_.size())
  {
    rescued_.clear();
    rescued_taken_ = 0;
  }
  return static_cast<int>(n);
}

void completion_queue_impl::rescue() noexcept
{
  std::array<ibv_wc, 32> completions;
  bool some = false;
  try
  {
    const std::lock_guard lock(native_mutex_);
    for (;;)
    {
      rescued_.reserve(rescued_.size() + completions.size()); // before anything is taken
      const int count = ibv_poll_cq(native_, static_cast<int>(completions.size()), completions.data());
      if (count <= 0)
        break;
      rescued_.insert(rescued_.end(), completions.begin(), completions.begin() + count);
      some = true;
    }
  }
  catch (const std::bad_alloc&)
  {
    // What is left in the device's queue goes with the queue pair.
  }
  if (!some)
    return;
  has_deferred_.store(true, std::memory_order_seq_cst); // as in defer()
  kick();
}

// Whether there was any completion.
bool completion_queue_impl::collect()
{
  std::array<ibv_wc, 32> completions;
  const int count = take_completions(completions.data(), static_cast<int>(completions.size()));
  if (count <= 0)
    return false; // a negative count is an overrun, which the queue pairs' async events report
  // take() is called without sources_mutex_: sources take that under their own mutex.
  std::shared_ptr<work_source> taker;
  std::uint32_t taker_index = 0;
  for (int i = 0; i < count; ++i)
  {
    const ibv_wc& wc = completions[static_cast<std::size_t>(i)];
    const auto source = static_cast<std::uint32_t>(wc.wr_id >> 48);
    const auto slot = static_cast<std::uint32_t>(wc.wr_id >> 33) & 0x7fff;
    const bool last = ((wc.wr_id >> 32) & 1) != 0;
    if (!taker || taker_index != source)
    {
      // The one before may go with it, which takes the mutex, too.
      const std::shared_ptr<work_source> before = std::move(taker);
      std::lock_guard lock(sources_mutex_);
      taker = source < sources_.size() ? sources_[source] : nullptr;
      taker_index = source;
    }
    if (!taker)
      continue; // of a queue pair that is gone
    operation* op = taker->take(wc, slot, last, static_cast<std::uint32_t>(wc.wr_id));
    if (op != nullptr && op->at_once)
      op->complete(op, true, false);
    else if (op != nullptr)
      ready_.push_back(op);
  }
  return true;
}

completion_queue_impl::round completion_queue_impl::poll(bool in_context)
{
  round result;
  if (shut_down_.load(std::memory_order_relaxed) || polling_.exchange(true, std::memory_order_acquire))
  {
    result.busy = true;
    return result;
  }
  struct guard
  {
    completion_queue_impl& queue;
    ~guard()
    {
      // A handler that threw leaves the rest of its round in ready_: the chain sees to it.
      const bool rest = !queue.ready_.empty();
      queue.polling_.store(false, std::memory_order_release);
      if (rest && queue.mode() != completion_mode::manual)
        queue.wake();
    }
  } leave{*this};

  refill();
  result.quiet = ready_.empty() && !collect();
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

std::optional<ibv_wc> completion_queue_impl::extract(std::uint64_t work_request)
{
  if (forked())
    return std::nullopt;
  rescue(); // in order: what others are to find comes before what the device says from here on
  const std::lock_guard lock(native_mutex_);
  const auto begin = rescued_.begin() + static_cast<std::ptrdiff_t>(rescued_taken_);
  const auto found = std::find_if(begin, rescued_.end(), [&](const ibv_wc& wc) { return wc.wr_id == work_request; });
  if (found == rescued_.end())
    return std::nullopt;
  const ibv_wc result = *found;
  rescued_.erase(found);
  if (rescued_taken_ == rescued_.size())
  {
    rescued_.clear(); // or the next look, which may be the last before somebody waits, would find nothing
    rescued_taken_ = 0;
  }
  return result;
}

std::vector<std::shared_ptr<work_source>> completion_queue_impl::sources() const
{
  std::vector<std::shared_ptr<work_source>> result;
  std::lock_guard lock(sources_mutex_);
  for (const auto& source : sources_)
    if (source)
      result.push_back(source);
  return result;
}

void completion_queue_impl::fail_all(
  const error_code& reason, const char* what, const work_source* through) noexcept
{
  for (const auto& source : sources())
    source->fail(reason, what, through);
}

void completion_queue_impl::on_device_event(const device_news& news) noexcept
{
  if (news.type != device_event_type::completion_queue_error)
    return;
  {
    const std::lock_guard lock(sources_mutex_);
    failed_ = true; // it says so once: who comes now is told by add()
  }
  fail_all(error::completion_queue_failed, describe(news.type), nullptr);
}

void completion_queue_impl::end_in_child() noexcept
{
  for (const auto& source : sources())
    source->end_in_child();
}

// What had ended already when the io_context went: the handlers are destroyed uncalled.
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
