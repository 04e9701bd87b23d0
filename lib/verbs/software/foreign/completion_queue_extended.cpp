//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/foreign/exports.hpp"
#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"

#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>

// Completion queues whose completions are read one by one, field by field: ibv_create_cq_ex(3).

namespace rdma::software {
namespace {

/// The position of ibv_start_poll() and ibv_next_poll().
struct extended_poll final : extension_state
{
  ~extended_poll() override
  {
    if (domain != nullptr)
      domain->users.fetch_sub(1, std::memory_order_release);
  }

  protection_domain* domain = nullptr; // the parent domain, or null
  bool single_threaded = false;
  std::mutex batch; // held from ibv_start_poll() to ibv_end_poll()
  ibv_wc current{};
  std::int64_t stamp = 0;
};

completion_queue& of(ibv_cq_ex* cq) noexcept
{
  return *static_cast<completion_queue*>(ibv_cq_ex_to_cq(cq));
}

extended_poll& poll_of(ibv_cq_ex* cq) noexcept
{
  return static_cast<extended_poll&>(*of(cq).extended);
}

const ibv_wc& current(ibv_cq_ex* cq) noexcept
{
  return poll_of(cq).current;
}

int show(ibv_cq_ex* cq, int polled) noexcept
{
  if (polled == 0)
    return ENOENT;
  cq->wr_id = current(cq).wr_id;
  cq->status = current(cq).status;
  return 0;
}

// Makes no progress: a completion that this call caused would also cause an event if the program
// has just armed the queue, and some programs take an event without a completion for an error.
int take_next(ibv_cq_ex* cq) noexcept
{
  extended_poll& at = poll_of(cq);
  return show(cq, of(cq).take(1, &at.current, &at.stamp));
}

void end_batch(ibv_cq_ex* cq) noexcept
{
  extended_poll& at = poll_of(cq);
  if (!at.single_threaded)
    at.batch.unlock();
}

int begin_batch(ibv_cq_ex* cq, ibv_poll_cq_attr* with)
{
  extended_poll& at = poll_of(cq);
  if (with->comp_mask != 0)
    return EINVAL;
  if (!at.single_threaded)
    at.batch.lock();
  const int error = show(cq, of(cq).poll(1, &at.current, &at.stamp));
  if (error != 0)
    end_batch(cq); // ibv_end_poll() is not called then
  return error;
}

std::uint64_t wallclock(std::int64_t stamp)
{
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
    duration_cast<nanoseconds>(since_1970).count() - (wire::now() - stamp));
}

// Sets all of them, so that a program that reads a field it did not ask for calls no null pointer.
void set_functions(ibv_cq_ex& to) noexcept
{
  to.start_poll = &begin_batch;
  to.next_poll = &take_next;
  to.end_poll = &end_batch;
  to.read_opcode = [](ibv_cq_ex* cq) { return current(cq).opcode; };
  to.read_vendor_err = [](ibv_cq_ex* cq) { return current(cq).vendor_err; };
  to.read_byte_len = [](ibv_cq_ex* cq) { return current(cq).byte_len; };
  to.read_imm_data = [](ibv_cq_ex* cq) { return current(cq).imm_data; };
  to.read_qp_num = [](ibv_cq_ex* cq) { return current(cq).qp_num; };
  to.read_src_qp = [](ibv_cq_ex* cq) { return current(cq).src_qp; };
  to.read_wc_flags = [](ibv_cq_ex* cq) { return current(cq).wc_flags; };
  to.read_slid = [](ibv_cq_ex* cq) { return std::uint32_t{current(cq).slid}; };
  to.read_sl = [](ibv_cq_ex* cq) { return current(cq).sl; };
  to.read_dlid_path_bits = [](ibv_cq_ex* cq) { return current(cq).dlid_path_bits; };
  to.read_completion_ts = [](ibv_cq_ex* cq)
  { return static_cast<std::uint64_t>(poll_of(cq).stamp); };
  to.read_completion_wallclock_ns = [](ibv_cq_ex* cq) { return wallclock(poll_of(cq).stamp); };
  to.read_cvlan = [](ibv_cq_ex*) { return std::uint16_t{0}; };
  to.read_flow_tag = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  to.read_tm_info = [](ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; };
}

} // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* with)
{
  constexpr std::uint64_t stamped =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  const std::uint32_t flags =
    (with->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? with->flags : 0;
  const bool in_domain = (with->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  // No ignored overrun, no fields of Ethernet or of tag matching.
  if ((with->comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD})
      != 0
    || (flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0
    || (with->wc_flags & ~(std::uint64_t{IBV_WC_STANDARD_FLAGS} | stamped)) != 0)
    return fail(EOPNOTSUPP);
  auto* const domain = in_domain ? static_cast<protection_domain*>(with->parent_domain) : nullptr;
  if (with->cqe > INT32_MAX || with->comp_vector > INT32_MAX
    || (in_domain
      && (domain == nullptr || domain->context != context || domain->parent_of == nullptr)))
    return fail(EINVAL);
  std::unique_ptr<extended_poll> extended(new (std::nothrow) extended_poll);
  std::unique_ptr<std::int64_t[]> stamps;
  if ((with->wc_flags & stamped) != 0
    && with->cqe <= device_context::of(context).settings.max_completions)
    stamps.reset(new (std::nothrow) std::int64_t[with->cqe]);
  ibv_cq* const plain = create_cq(context, static_cast<int>(with->cqe), with->cq_context,
    with->channel, static_cast<int>(with->comp_vector));
  if (plain == nullptr)
    return nullptr;
  if (extended == nullptr || ((with->wc_flags & stamped) != 0 && stamps == nullptr))
  {
    destroy_cq(plain);
    return fail(ENOMEM);
  }
  auto* const made = static_cast<completion_queue*>(plain);
  extended->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0
    || (domain != nullptr && domain->thread != nullptr);
  extended->domain = domain;
  if (domain != nullptr)
    domain->users.fetch_add(1, std::memory_order_relaxed);
  made->extended = std::move(extended);
  made->has_stamps = stamps != nullptr;
  made->stamps = std::move(stamps);
  set_functions(made->extension());
  return &made->extension();
}

} // namespace rdma::software
