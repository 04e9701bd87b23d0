//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_PUBLISHED_HPP
#define BOOST_RDMA_OBJECTS_PUBLISHED_HPP

#include <boost_rdma/detail/objects/publication.hpp>
#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_published.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

namespace rdma {

/// Sizes of an rdma::published.
struct published_options
{
  /// Number of copies of the value in memory, from 2 to 255.
  /** One is current. A publication waits if all others are held by snapshots. Loads without a
   * snapshot start again if the others are all published while they read. */
  std::size_t buffers = 3;

  /// Number of snapshots that readers can hold at a time, from 1 to 4096.
  std::size_t snapshots = 64;

  /// Time after which a snapshot ends that is not renewed, from 1 ms to 24 hours.
  /** The longest time for which a dead reader can delay the owner. */
  std::chrono::milliseconds lease{1000};
};

/// A large value in memory of this process that this process replaces as a whole.
/**
 * Peers read it as a remote_published with the handle that remote() returns, or with a loan of
 * region() (basic_agent::async_lend()). They need access::remote_read, and access::remote_atomic
 * for snapshots. Only this process publishes.
 *
 * A new value is written to a buffer that no snapshot holds, and then made current by the store of
 * one word. Readers continue to read the old value meanwhile. The processor copies the value; the
 * device is used only to end snapshots whose lease has ended.
 *
 * @code
 * T* next = co_await config.async_prepare(asio::use_awaitable);
 * *next = config.value(); // or a new value
 * next->limit = 10;
 * config.commit();
 * @endcode
 *
 * @tparam T See remote_published.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe. An outstanding operation uses the object on its
 * handler's executor. If another thread runs that, call all functions, and the destructor, in a
 * strand with which the handlers are associated.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class published
{
  using publication = detail::objects::publication;

public:
  /// The type of the value.
  using value_type = T;

  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = published<T, OtherExecutor>;
  };

  /// Creates an object in memory of its own. All bytes of the first value are zeros.
  /**
   * @param executor Executor for handlers without an associated executor.
   * @param context Context whose RDMA NIC is used, or its software device if it has no NIC.
   * @param options Sizes. They cannot be changed later.
   *
   * @throws system_error With one of these errors:
   * @li boost::asio::error::invalid_argument: an option is out of range.
   * @li the errors of registering memory, and of creating and connecting a queue pair.
   * @li operation_not_supported: the device is iWARP, which has no atomics.
   */
  published(const executor_type& executor, const rdma::context& context,
    const published_options& options = published_options())
    : core_(std::make_shared<core>(executor, context, checked(options)))
    , executor_(executor)
  {
  }

  /// Creates an object with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  published(ExecutionContext& owner, const rdma::context& context,
    const published_options& options = published_options())
    : published(executor_type(owner.get_executor()), context, options)
  {
  }

  /// Moves an object. The memory remains where it is. `other` can only be destroyed or assigned to.
  published(published&&) noexcept = default;

  /// Moves an object. The object that was here ends as in the destructor.
  published& operator=(published&& other) noexcept
  {
    published taken(std::move(other));
    std::swap(core_, taken.core_);
    std::swap(executor_, taken.executor_);
    return *this;
  }

  /// Ends the object. Outstanding operations complete with operation_aborted.
  /** The memory remains registered until they have. Requests of peers then fail. */
  ~published()
  {
    if (core_)
      core_->close();
  }

  /// Returns the executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Returns the handle for peers.
  [[nodiscard]] remote_buffer remote() const { return core_->remote(); }

  /// Returns the memory, for basic_agent::async_lend().
  [[nodiscard]] mutable_buffer region() const noexcept { return core_->region(); }

  /// Returns the current value. The reference is valid while the value is current.
  [[nodiscard]] const T& value() const noexcept
  {
    return *core_->value_at(core_->state.current.buffer);
  }

  /// Returns the number of the current value: 0 for the first, and one more for each later one.
  [[nodiscard]] std::uint64_t generation() const noexcept
  {
    return core_->state.current.generation;
  }

  /// Publishes a value.
  /**
   * If a buffer is free, the initiating call itself copies and publishes the value. Otherwise the
   * operation waits until a reader ends a snapshot, or until the lease of one ends: at most a lease
   * after the call or the last renewal, whichever is later.
   *
   * @param value The value. It must remain valid until the handler is called.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::uint64_t) @endcode
   * The number of the value; after an error, that of the current value.
   *
   * @par Errors
   * @li boost::asio::error::already_started: async_publish() or async_prepare() is outstanding.
   * @li the errors of basic_queue_pair::async_compare_exchange(), if a lease had to be ended.
   *
   * @par Exceptions
   * If the initiating function throws std::bad_alloc, the value may be published: see generation().
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation with operation_aborted if no buffer is free. The
   * value is then not published.
   */
  template <boost::asio::completion_token_for<void(error_code, std::uint64_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_publish(const T& value,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<void(error_code, std::uint64_t), publishing, CompletionToken>(
      token, publication::extent::all, std::as_bytes(std::span(&value, 1)));
  }

  /// Prepares a buffer for the next value, which the program then writes and publishes by commit().
  /**
   * Waits as async_publish() does. The buffer contains an older value, or parts of one. If a buffer
   * is prepared already, the operation returns that one. async_publish() uses it, too.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, T*) @endcode
   * The buffer, which the program may write until commit(); null after an error.
   *
   * @par Errors
   * Those of async_publish().
   *
   * @par Per-operation cancellation
   * As that of async_publish().
   */
  template <boost::asio::completion_token_for<void(error_code, T*)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_prepare(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return start<void(error_code, T*), preparing, CompletionToken>(
      token, publication::extent::prepare, std::span<const std::byte>());
  }

  /// Publishes the value in the buffer of async_prepare(). Does not wait.
  /**
   * @return The number of the value.
   *
   * @throws system_error With one of these errors:
   * @li boost::asio::error::invalid_argument: no buffer is prepared.
   * @li boost::asio::error::already_started: async_publish() or async_prepare() is outstanding.
   */
  std::uint64_t commit()
  {
    detail::objects::local_publication machine(
      core_->words(), core_->state, publication::extent::commit);
    detail::throw_if(machine.begin().ec, "published::commit");
    return generation();
  }

private:
  // Outlives the object if operations are outstanding.
  struct core : detail::objects::owned_memory<Executor>
  {
    using memory = detail::objects::owned_memory<Executor>;

    core(const Executor& executor, const rdma::context& context,
      const detail::objects::published_layout& layout)
      : memory(executor, context, layout.size())
      , where(memory::where())
      , state(layout)
    {
      detail::objects::header head = remote_published<T, Executor>::expected_header(layout.buffers);
      head.parameters[0] = layout.slots;
      head.parameters[1] = static_cast<std::uint64_t>(layout.lease.count());
      detail::objects::encode_published(this->words(), head, layout);
    }

    void close()
    {
      state.closed = true;
      memory::close();
    }

    [[nodiscard]] T* value_at(std::uint8_t buffer) const noexcept
    {
      return reinterpret_cast<T*>(
        reinterpret_cast<std::byte*>(this->words().data()) + state.layout.value(buffer));
    }

    const detail::objects::place where;
    detail::objects::publisher state;
  };

  struct keeping
  {
    std::shared_ptr<core> owner;
  };

  // A base keeps the core, because the end of the publication changes it.
  struct running
    : keeping
    , detail::objects::local_publication
  {
    running(
      const std::shared_ptr<core>& of, publication::extent what, std::span<const std::byte> value)
      : keeping{of}
      , local_publication(of->words(), of->state, what, value)
    {
    }
  };

  struct publishing : running
  {
    using running::running;
    auto results() const { return std::make_tuple(this->generation()); }
  };

  struct preparing : running
  {
    using running::running;
    auto results() const
    {
      const auto prepared = this->buffer();
      return std::make_tuple(prepared ? this->owner->value_at(*prepared) : nullptr);
    }
  };

  template <class Signature, class Machine, class CompletionToken>
  auto start(std::remove_reference_t<CompletionToken>& token, publication::extent what,
    std::span<const std::byte> value)
  {
    struct starter : detail::objects::remote_object<Executor>
    {
      using detail::objects::remote_object<Executor>::run;
    };
    return starter::template run<Signature, CompletionToken>(executor_, core_->where, token,
      [owner = core_, what, value] { return Machine(owner, what, value); });
  }

  static detail::objects::published_layout checked(const published_options& options)
  {
    const detail::objects::published_layout result{.value_size = sizeof(T),
      .buffers = options.buffers,
      .slots = options.snapshots,
      .lease = options.lease};
    if (!result.is_valid())
      throw system_error(boost::asio::error::invalid_argument, "published");
    return result;
  }

  std::shared_ptr<core> core_;
  Executor executor_;
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_PUBLISHED_HPP
