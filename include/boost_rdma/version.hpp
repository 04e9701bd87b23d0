//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_VERSION_HPP
#define BOOST_RDMA_VERSION_HPP

/**
 * @file
 * The library's version, by semantic versioning: before 1.0.0 a minor version may break what was, a
 * patch does not.
 *
 * What these three say is the only place where the version is written; the build, the packages and
 * the reference read it.
 */

/// Changes with what programs have to be changed for.
#define BOOST_RDMA_VERSION_MAJOR 0
/// Changes with what is new; before 1.0.0, also with what programs have to be changed for.
#define BOOST_RDMA_VERSION_MINOR 1
/// Changes with what was mended.
#define BOOST_RDMA_VERSION_PATCH 0

/// The version as one number, for comparisons by the preprocessor: major * 100000 + minor * 100 +
/// patch, as BOOST_VERSION.
#define BOOST_RDMA_VERSION                                                                         \
  (BOOST_RDMA_VERSION_MAJOR * 100000 + BOOST_RDMA_VERSION_MINOR * 100 + BOOST_RDMA_VERSION_PATCH)

#endif // BOOST_RDMA_VERSION_HPP
