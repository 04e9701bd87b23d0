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
 * The library's version, by semantic versioning. Before 1.0.0 a minor version may break
 * compatibility; a patch version does not.
 *
 * These macros are the only place that defines the version. The build, the packages and the
 * reference read it here.
 */

/// Increased for incompatible changes.
#define BOOST_RDMA_VERSION_MAJOR 0
/// Increased for new features and, before 1.0.0, for incompatible changes.
#define BOOST_RDMA_VERSION_MINOR 1
/// Increased for corrections.
#define BOOST_RDMA_VERSION_PATCH 0

/// The version as one number for comparisons by the preprocessor: major * 100000 + minor * 100 +
/// patch, as BOOST_VERSION.
#define BOOST_RDMA_VERSION                                                                         \
  (BOOST_RDMA_VERSION_MAJOR * 100000 + BOOST_RDMA_VERSION_MINOR * 100 + BOOST_RDMA_VERSION_PATCH)

#endif // BOOST_RDMA_VERSION_HPP
