//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_PUBLICATION_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_PUBLICATION_HPP

#include <boost_rdma/detail/objects/published.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

// The owner's side of published values. Its processor writes all words but the slots, which it
// changes through the device, as readers do.

namespace rdma::detail::objects {

// The owner's own data of an object.
struct publisher
{
  explicit publisher(const published_layout& of);

  published_layout layout;
  lease_watch watch;
  std::vector<std::uint64_t> publications; // of the buffers' values, from 1; 0 without a value
  std::vector<std::uint64_t> slots;        // as read last
  std::vector<std::size_t> ended;          // slots whose lease has ended
  published_version current{};
  std::optional<std::uint8_t> prepared; // buffer that no reader uses
  bool busy = false;                    // an operation is outstanding
  bool closed = false;                  // the object has ended
};

// Writes the words of a new object but not its value. Those that are not written are zeros.
void encode_published(
  std::span<std::uint64_t> image, const header& head, const published_layout& layout) noexcept;

// Publishes a value: prepares a free buffer, fills it, and makes it current.
/* If no buffer is free, it waits until a reader frees one, and frees those pins itself whose lease
 * has ended. Each step of the processor is between two fences. The operation is outstanding until
 * the machine is destroyed, which is before the handler is called. */
class publication
{
public:
  enum class extent : std::uint8_t
  {
    prepare, // a buffer for the program
    commit,  // a buffer that was prepared and filled
    all,
  };

  publication(publisher& by, extent what, std::span<const std::byte> value = {},
    clock_function clock = &std::chrono::steady_clock::now) noexcept
    : by_(&by)
    , value_(value)
    , clock_(clock)
    , what_(what)
  {
  }

  step begin() noexcept;
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled);

  // True if the processor, not the device, carries the current step out.
  [[nodiscard]] bool is_on_processor() const noexcept { return stage_ != stage::expire; }

  // The generation of the current value.
  [[nodiscard]] std::uint64_t generation() const noexcept { return by_->current.generation; }
  // The buffer that was prepared, if the operation has not failed.
  [[nodiscard]] std::optional<std::uint8_t> buffer() const noexcept { return buffer_; }
  // Number of pins whose lease had ended.
  [[nodiscard]] unsigned freed() const noexcept { return freed_; }

private:
  enum class stage : std::uint8_t
  {
    look,       // load the slots
    pause,      // all buffers are pinned
    expire,     // free slots whose lease has ended
    invalidate, // mark a buffer as incomplete
    fill,       // store its generation, and the value
    publish,    // make it current
  };

  struct clear
  {
    void operator()(bool* busy) const noexcept { *busy = false; }
  };

  step enter(stage entered, std::size_t requests = 1) noexcept
  {
    stage_ = entered;
    return step::access(requests);
  }
  step store(stage entered, std::uint64_t word, std::size_t requests = 1) noexcept
  {
    word_ = word;
    return enter(entered, requests);
  }
  step looked(bool cancelled);
  step prepared() noexcept;

  publisher* by_;
  std::span<const std::byte> value_;
  clock_function clock_;
  extent what_;
  stage stage_ = stage::look;
  std::unique_ptr<bool, clear> turn_;
  std::uint64_t word_ = 0;
  published_version made_{};
  std::optional<std::uint8_t> buffer_;
  unsigned freed_ = 0;
  back_off pause_{std::chrono::microseconds(1000)};
};

// A publication whose steps on the processor are carried out at once, in the object's memory.
class local_publication : public publication
{
public:
  local_publication(std::span<std::uint64_t> memory, publisher& by, extent what,
    std::span<const std::byte> value = {}) noexcept
    : publication(by, what, value)
    , memory_(memory)
  {
  }

  step begin() { return carry_out(publication::begin(), false); }
  step next(bool cancelled) { return carry_out(publication::next(cancelled), cancelled); }

private:
  step carry_out(step next, bool cancelled);
  void access(const access_request& what) const noexcept;

  std::span<std::uint64_t> memory_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_PUBLICATION_HPP
