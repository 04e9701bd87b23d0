//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/request_results.hpp"

#include "resource/window_impl.hpp"

#include <boost/endian/conversion.hpp>

namespace rdma::detail {

void set_message(operation& op, const ibv_wc& wc)
{
  message& m = op.result.received;
  m.size = wc.byte_len;
  m.written = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  m.queue_pair_number = wc.qp_num;
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0)
    m.immediate = boost::endian::big_to_native(wc.imm_data);
  else if ((wc.wc_flags & IBV_WC_WITH_INV) != 0)
    m.invalidated_key = wc.invalidated_rkey;
}

// Binding changes the key. Some devices update ibv_mw::rkey when the bind is posted, others leave
// this to the program.
void set_window(operation& op, std::size_t device_index)
{
  ibv_mw* window = op.window->native;
  window->rkey = op.what.immediate;
  op.window->opens_on(op.registrations[0]);
  device_keys keys{};
  keys[device_index] = window->rkey;
  op.result.bound = remote_buffer(op.sges[0].addr, op.sges[0].length, keys, op.what.window_rights);
}

} // namespace rdma::detail
