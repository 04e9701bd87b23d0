//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_OWNED_HPP
#define BOOST_RDMA_OBJECTS_OWNED_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/objects/operation.hpp>
#include <boost_rdma/memory_region.hpp>

#include <boost/asio/execution_context.hpp>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma {
namespace detail::objects {

/// Registered memory of an object, and the owner's access to it: a queue pair that is its own peer,
/// because a device's atomics need not be atomic with the processor's (IBV_ATOMIC_HCA).
template <class Executor>
class owned_memory
{
public:
  /// @cond
  // `rights`: in addition to those to read and to do atomics.
  owned_memory(
    const Executor& executor, const rdma::context& context, std::size_t size, access rights = {})
    : context_(context)
    , rights_(rights | access::local_write | access::remote_read | access::remote_atomic
        | access::window_bind)
    , region_(context, size, rights_)
    , self_(executor, context, own_options())
  {
    self_.connect(self_.local_endpoint());
  }

  [[nodiscard]] std::span<std::uint64_t> words() const { return region_.as_span<std::uint64_t>(); }
  [[nodiscard]] const memory_region& region() const noexcept { return region_; }

  [[nodiscard]] remote_buffer remote() const { return remote_of(region_); }

  // The memory with the key of one device: those of others are not atomic with that device's.
  [[nodiscard]] remote_buffer remote_of(const memory_region& region) const
  {
    const remote_buffer all = region.remote();
    const device_kind kind = self_.transport().kind;
    return {kind, all.address(), all.size(), all.key(kind), all.rights()};
  }

  [[nodiscard]] place where() const { return {self_.core(), remote()}; }

  // Ends the operations that wait for the device.
  void close() { self_.close(); }

  // More memory with the same rights.
  [[nodiscard]] memory_region allocate(std::size_t size) const
  {
    return memory_region(context_, size, rights_);
  }

  // Copies words that peers change meanwhile.
  static void read(std::span<const std::uint64_t> from, std::span<std::uint64_t> to) noexcept
  {
    for (std::size_t i = 0; i != to.size(); ++i)
      to[i] = std::atomic_ref(const_cast<std::uint64_t&>(from[i])).load(std::memory_order_acquire);
  }
  /// @endcond

private:
  static queue_pair_options own_options()
  {
    queue_pair_options result;
    result.receive_depth = 1;
    return result;
  }

  rdma::context context_;
  access rights_;
  memory_region region_;
  basic_queue_pair<Executor> self_;
};

} // namespace detail::objects

/// A remote object in memory of this process.
/**
 * Peers open it as a Remote with the handle that remote() returns, or with a loan of region()
 * (basic_agent::async_lend()).
 *
 * The operations of Remote work on the owner's side, too. They go through the RDMA device, because
 * its atomics need not be atomic with the processor's. Peers must use the same device: remote() has
 * no key for another one, and their operations fail with error::no_remote_key.
 *
 * @tparam Remote The class by which peers access the object, for instance remote_mutex.
 *
 * @par Thread safety
 * As Remote.
 */
template <class Remote>
class owned
  : protected detail::objects::owned_memory<typename Remote::executor_type>
  , public Remote
{
  using memory = detail::objects::owned_memory<typename Remote::executor_type>;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = typename Remote::executor_type;

  /// Creates an object in memory of its own.
  /**
   * @param executor Executor for handlers without an associated executor.
   * @param context Context whose RDMA NIC is used, or its software device if it has no NIC.
   * @param initial The arguments of Remote::async_create() after the memory.
   *
   * @throws system_error With the error of registering memory or of creating and connecting a queue
   * pair. operation_not_supported: the device is iWARP, which has no atomics.
   */
  template <class... Initial>
  owned(const executor_type& executor, const rdma::context& context, const Initial&... initial)
    : memory(executor, context, Remote::size_for(initial...), Remote::more_rights)
    , Remote(executor, memory::where())
  {
    Remote::encode(memory::words().first(Remote::size_for(initial...) / 8), initial...);
  }

  /// Creates an object with the executor of an execution context.
  template <class ExecutionContext, class... Initial>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  owned(ExecutionContext& owner, const rdma::context& context, const Initial&... initial)
    : owned(executor_type(owner.get_executor()), context, initial...)
  {
  }

  /// Returns the handle for peers.
  [[nodiscard]] remote_buffer remote() const { return memory::remote(); }

  /// Returns the memory, for basic_agent::async_lend().
  [[nodiscard]] mutable_buffer region() const noexcept { return memory::region(); }
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_OWNED_HPP
