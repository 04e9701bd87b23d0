//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/group_simulation.hpp"

// The parts of the content of a bulk call.

namespace test::group_simulation {

void simulation::feed(std::uint32_t place, const record_ptr& of)
{
  std::erase_if(of->feeds,
    [&](const auto& each)
    {
      if (of->state.waits_for(each.first))
        return false;
      of->content->remove_child(each.first);
      return true;
    });
  for (const auto& each : of->content->take_parts())
  {
    const exposed_part part{place, of, each, ++last_part_};
    of->feeds[each.place] = part.number;
    at(now_ + patience_, [this, part] { end_part(part, {}, asio::error::timed_out); });
    if (!happens(conditions_.lost))
      at(next_arrival(place, each.place), [this, part] { arrive_part(part); });
  }
}

bool simulation::is_exposed(const exposed_part& part)
{
  const auto found = part.of->feeds.find(part.what.place);
  return found != part.of->feeds.end() && found->second == part.number;
}

void simulation::end_part(
  const exposed_part& part, std::optional<std::uint64_t> here, rdma::error_code ec)
{
  if (!members_[part.from].works() || !is_exposed(part))
    return;
  part.of->feeds[part.what.place] = 0;
  if (!ec)
    REQUIRE(part.of->content->take_progress(part.what.place, here.value()));
  else
    part.of->state.take_failure(part.what.place, ec, now_);
  advance(part.from, part.of);
}

void simulation::answer_part(
  const exposed_part& part, std::optional<std::uint64_t> here, const rdma::error_code& ec)
{
  if (!happens(conditions_.lost))
    at(now_ + any(conditions_.delay_max), [this, part, here, ec] { end_part(part, here, ec); });
}

void simulation::arrive_part(const exposed_part& part)
{
  member& to = members_[part.what.place];
  if (to.is_stopped)
    return;
  if (to.is_dead)
    return end_part(part, {}, rdma::error::peer_lost);
  group_request r;
  r.kind = group_request_kind::part;
  r.left = 1us;
  r.bytes = part.what.offset;
  const auto decoded = decode_group_request(encoded(std::move(r), {part.what.place, 1}));
  REQUIRE(decoded);
  std::vector<record_ptr> removed;
  const auto found = to.history.find(*decoded, removed).record;
  if (!found) // the call was late or lost
    return answer_part(part, {}, rdma::error::malformed_message);
  if (found->finished && !found->content->is_complete())
    return answer_part(part, {}, asio::error::timed_out);
  const auto offer = found->content->take_offer(decoded->bytes, part.what.bytes);
  using verdict = group_content::verdict;
  REQUIRE(offer.is != verdict::malformed);
  if (offer.is == verdict::not_next)
    return answer_part(part, found->content->here(), {});
  // A transfer from a member that stops does not end.
  at(now_ + any(conditions_.delay_max),
    [this, part, found, offer]
    {
      if (members_[part.what.place].works() && !members_[part.from].is_stopped)
        end_pull(part, found, offer.number, !members_[part.from].is_dead && is_exposed(part));
    });
}

void simulation::end_pull(
  const exposed_part& part, const record_ptr& to, std::uint64_t number, bool succeeds)
{
  REQUIRE(part.of->content->here() >= part.what.offset + part.what.bytes);
  const bool is_complete = to->content->take_pulled(number, succeeds ? part.what.bytes : 0);
  if (to->content->here() > part.what.offset)
    answer_part(part, to->content->here(), {});
  else
    answer_part(part, {}, asio::error::operation_aborted);
  if (is_complete && to->state.waits_for_own())
    start_handler(part.what.place, to);
  advance(part.what.place, to);
}

} // namespace test::group_simulation
