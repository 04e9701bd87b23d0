//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/exposed_memory.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>

namespace rdma::detail::rpc {

using rdma::rpc::exposure;

namespace {

constexpr std::size_t window_size_max = std::size_t{1} << 30; // every device permits so much

// Memory that only windows on this queue pair open.
bool can_be_opened(const exposure& what, const queue_pair_core* by)
{
  const registration* const region = what.memory().registration();
  if (by == nullptr || region == nullptr || what.memory().size() > window_size_max
    || !by->device().has_sound_windows())
    return false;
  return region->domain == by->context().impl().get()
    && region->natives[by->device_index()] != nullptr
    && permits(region->rights, access::window_bind)
    && (!permits(what.rights(), access::remote_write)
      || permits(region->rights, access::local_write));
}

bool goes_with_call(const exposed_memory::range& what)
{
  return what.rights == access::remote_read && what.memory.size() <= exposed_range::content_max;
}

// The bytes of a message may not be written to it.
bool is_const(const exposure& what)
{
  const registration* const region = what.memory().registration();
  return region != nullptr && region->read_only;
}

} // namespace

error_code exposed_memory::check(std::span<const exposure> what)
{
  constexpr access rights = access::remote_read | access::remote_write;
  const bool is_good = what.size() <= exposed_range::most
    && std::ranges::all_of(what,
      [](const exposure& each)
      {
        return each.memory().size() != 0 && each.rights() != access::local_read
          && permits(rights, each.rights())
          && !(permits(each.rights(), access::remote_write) && is_const(each));
      });
  return is_good ? error_code() : make_error_code(boost::asio::error::invalid_argument);
}

exposed_memory::exposed_memory(std::span<const exposure> what, const queue_pair_core* by)
{
  ranges_.reserve(what.size());
  for (const exposure& each : what)
  {
    range& made = ranges_.emplace_back(each.memory(), each.rights());
    if (each.memory().registration() != nullptr)
      made.kept = kept_registration(each.memory().registration());
    if (!goes_with_call(made) && can_be_opened(each, by))
      try
      {
        made.window = std::make_shared<window_impl>(by->context().impl(), by->device().name());
      }
      catch (const system_error&)
      {
        // The device has no more windows: the bytes travel in messages.
      }
  }
}

void exposed_memory::describe(std::uint32_t number, std::vector<std::byte>& to) const
{
  message m;
  m.type = message_type::expose;
  m.number = number;
  const std::size_t at = begin_message(to, m);
  for (const range& each : ranges_)
  {
    exposed_range made;
    made.rights = each.rights;
    made.size = each.memory.size();
    const std::span bytes(static_cast<const std::byte*>(each.memory.data()), each.memory.size());
    if (each.window)
    {
      made.form = exposed_range::form_type::window;
      made.address = reinterpret_cast<std::uintptr_t>(each.memory.data());
      made.key = each.window->next_key();
    }
    else
      made.form = goes_with_call(each) ? exposed_range::form_type::content
                                       : exposed_range::form_type::message;
    append_range(to, made, made.form == exposed_range::form_type::content ? bytes : bytes.first(0));
  }
  end_message(to, at);
}

bool exposed_memory::has_windows() const noexcept
{
  return std::ranges::any_of(ranges_, [](const range& each) { return each.window != nullptr; });
}

std::span<const std::byte> exposed_memory::find(
  std::size_t index, const exposed_part& part, access wanted) const noexcept
{
  if (index >= ranges_.size() || ranges_[index].window || goes_with_call(ranges_[index])
    || !permits(ranges_[index].rights, wanted))
    return {};
  const const_buffer& memory = ranges_[index].memory;
  if (part.size == 0 || part.offset > memory.size() || part.size > memory.size() - part.offset)
    return {};
  return std::span(static_cast<const std::byte*>(memory.data()), memory.size())
    .subspan(part.offset, part.size);
}

void exposed_memory::close() noexcept
{
  for (const range& each : ranges_)
    if (each.window)
      each.window->close();
}

} // namespace rdma::detail::rpc
