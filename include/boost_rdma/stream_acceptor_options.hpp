//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_STREAM_ACCEPTOR_OPTIONS_HPP
#define BOOST_RDMA_STREAM_ACCEPTOR_OPTIONS_HPP

#include <boost_rdma/acceptor_options.hpp>
#include <boost_rdma/stream_options.hpp>

namespace rdma {

/// Options of a stream acceptor and of the streams that it accepts.
/**
 * The members of acceptor_options apply to clients that ask for RDMA, in particular authorise and
 * target. Plain TCP clients have no request.
 */
struct stream_acceptor_options : acceptor_options
{
  /// Options of every accepted stream.
  /** With stream_transports::rdma, plain TCP clients are disconnected. */
  stream_options stream;
};

} // namespace rdma

#endif // BOOST_RDMA_STREAM_ACCEPTOR_OPTIONS_HPP
