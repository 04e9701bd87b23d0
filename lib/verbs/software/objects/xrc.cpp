//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/xrc.hpp"

#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/queue_pair.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include <fcntl.h>
#include <sys/stat.h>

// Domains of extended reliable connections. The errors are those of the kernel.

namespace rdma::software {

xrc_domain* xrc_table::open(ibv_context* context, const ibv_xrcd_init_attr& with)
{
  struct stat file
  {
  };
  const bool has_file = with.fd != -1;
  if (has_file && ::fstat(with.fd, &file) != 0)
    return fail(EBADF);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(of_files_.begin(), of_files_.end(),
    [&](const xrc_domain* each)
    { return has_file && each->device == file.st_dev && each->inode == file.st_ino; });
  if (found != of_files_.end())
  {
    if ((with.oflags & O_EXCL) != 0)
      return fail(EINVAL);
    ++(*found)->opened;
    return *found;
  }
  if (has_file && (with.oflags & O_CREAT) == 0)
    return fail(EAGAIN);
  auto made = std::make_unique<xrc_domain>();
  made->context = made->targets.context = context;
  made->device = file.st_dev;
  made->inode = file.st_ino;
  if (has_file)
    of_files_.push_back(made.get());
  device_context::of(context).children.fetch_add(1, std::memory_order_relaxed);
  return made.release();
}

int xrc_table::close(xrc_domain& which) noexcept
{
  const std::lock_guard lock(mutex_);
  if (which.opened == 1 && which.targets.users.load(std::memory_order_acquire) != 0)
    return EBUSY;
  if (--which.opened != 0)
    return 0;
  std::erase(of_files_, &which);
  device_context::of(which.context).children.fetch_sub(1, std::memory_order_release);
  delete &which;
  return 0;
}

int xrc_table::add(shared_receive_queue& queue) noexcept
try
{
  const std::lock_guard lock(mutex_);
  if (queues_.size() == protocol::psn_mask)
    return ENOMEM;
  do
    last_number_ = last_number_ == protocol::psn_mask ? 1 : last_number_ + 1;
  while (!queues_.try_emplace(last_number_, &queue).second);
  queue.number = last_number_;
  return 0;
}
catch (const std::bad_alloc&)
{
  return ENOMEM;
}

void xrc_table::remove(const shared_receive_queue& queue) noexcept
{
  const std::lock_guard lock(mutex_);
  // The number may belong to another queue since a first call.
  if (const auto found = queues_.find(queue.number);
      found != queues_.end() && found->second == &queue)
    queues_.erase(found);
}

shared_receive_queue* xrc_table::find(
  std::uint32_t number, const protection_domain& target) noexcept
{
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(number);
  return found != queues_.end() && &found->second->xrcd->targets == &target ? found->second
                                                                            : nullptr;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* with)
{
  device_context& owner = device_context::of(context);
  if (owner.removed)
    return fail(EIO);
  if (with->comp_mask != (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS))
    return fail(EINVAL);
  try
  {
    return owner.xrc.open(context, *with);
  }
  catch (const std::bad_alloc&)
  {
    return fail(ENOMEM);
  }
}

int close_xrcd(ibv_xrcd* xrcd)
{
  return device_context::of(xrcd->context).xrc.close(*static_cast<xrc_domain*>(xrcd));
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* with)
{
  constexpr std::uint32_t required =
    IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if ((with->comp_mask & ~std::uint32_t{IBV_QP_OPEN_ATTR_CONTEXT}) != required
    || with->xrcd == nullptr || with->xrcd->context != context || with->qp_type != IBV_QPT_XRC_RECV)
    return fail(EINVAL);
  ibv_qp* found = nullptr;
  try
  {
    device_context::of(context).engine.visit_all(
      [&](wire::progress_target& each)
      {
        auto* const qp = dynamic_cast<queue_pair_base*>(&each);
        if (qp != nullptr && qp->qp_num == with->qp_num
          && &qp->domain == &static_cast<xrc_domain*>(with->xrcd)->targets && qp->open())
          found = qp;
      });
  }
  catch (const std::bad_alloc&)
  {
    return fail(ENOMEM);
  }
  return found != nullptr ? found : fail(EINVAL);
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number)
{
  const auto* const queue = static_cast<const shared_receive_queue*>(srq);
  if (queue->xrcd == nullptr)
    return EOPNOTSUPP;
  *number = queue->number;
  return 0;
}

} // namespace rdma::software
