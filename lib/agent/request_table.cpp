//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/request_table.hpp"

namespace rdma::detail {

bool is_answer_to(
  const agent_message& question, const agent_message& answer, std::size_t device_index) noexcept
{
  if (answer.type == message_type::refused)
    return true;
  if ((answer.type == message_type::granted) != (question.type == message_type::allocate))
    return false;
  if (answer.type == message_type::done)
    return answer.lifetime <= (question.type == message_type::renew ? question.lifetime : 0);
  // A grant must match the request and must be usable.
  return answer.memory.size() == question.memory.size()
    && answer.memory.rights() == question.memory.rights() && answer.memory.key(device_index) != 0
    && answer.memory.address() % question.alignment == 0 && answer.lifetime <= question.lifetime;
}

} // namespace rdma::detail
