//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_LATE_COMPLETIONS_HPP
#define BOOST_RDMA_LIB_COMPLETION_LATE_COMPLETIONS_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace rdma::detail {

// A completion that needs memory to be posted.
class late_completion : public std::enable_shared_from_this<late_completion>
{
public:
  virtual ~late_completion() = default;
  virtual void post() = 0; // or throws std::bad_alloc

  std::shared_ptr<late_completion> next;
};

// What one thread of the library could not queue for lack of memory, and does later: completions,
// which it posts again, and functions.
class late_completions
{
public:
  late_completions() noexcept { of_thread_ = this; }
  late_completions(const late_completions&) = delete;
  late_completions& operator=(const late_completions&) = delete;
  ~late_completions()
  {
    of_thread_ = nullptr;
    while (first_)
      first_ = std::exchange(first_->next, nullptr);
    for (kept_function& each : kept_)
      each.end(false);
  }

  [[nodiscard]] static late_completions* of_this_thread() noexcept { return of_thread_; }
  [[nodiscard]] bool empty() const noexcept { return !first_; }

  // Posts a completion. Without memory, the completion is late if this thread has late_completions,
  // and otherwise the exception leaves this function.
  static void post(const std::shared_ptr<late_completion>& what)
  try
  {
    what->post();
  }
  catch (const std::bad_alloc&)
  {
    if (of_thread_ == nullptr)
      throw;
    what->next = std::exchange(of_thread_->first_, what);
  }

  void post_again()
  {
    auto rest = std::exchange(first_, nullptr);
    while (const auto next = rest)
    {
      rest = std::exchange(next->next, nullptr);
      post(next);
    }
  }

  // Moves a function to memory that is reserved for a few of them. Returns false, and leaves the
  // function alone, if there is no room.
  template <class Function>
  bool keep(Function& function) noexcept
  {
    if constexpr (sizeof(Function) <= sizeof kept_function::storage)
      for (kept_function& each : kept_)
        if (each.end_with == nullptr)
        {
          ::new (static_cast<void*>(each.storage)) Function(std::move(function));
          each.end_with = [](void* stored, bool call)
          {
            Function own(std::move(*static_cast<Function*>(stored)));
            static_cast<Function*>(stored)->~Function();
            if (call)
              std::move(own)();
          };
          return true;
        }
    return false;
  }

  void call_kept()
  {
    for (kept_function& each : kept_)
      each.end(true);
  }

private:
  struct kept_function
  {
    void end(bool call)
    {
      if (end_with != nullptr)
        std::exchange(end_with, nullptr)(storage, call);
    }

    alignas(std::max_align_t) std::byte storage[128];
    void (*end_with)(void* stored, bool call) = nullptr; // null if there is no function
  };

  static inline thread_local constinit late_completions* of_thread_ = nullptr;

  std::shared_ptr<late_completion> first_;
  std::array<kept_function, 8> kept_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_LATE_COMPLETIONS_HPP
