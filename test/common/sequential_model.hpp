//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_SEQUENTIAL_MODEL_HPP
#define BOOST_RDMA_TEST_COMMON_SEQUENTIAL_MODEL_HPP

// The requirements on a sequential model, and an operation of a history.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace test {

/// A field of a result that was not observed matches everything. No operation writes this value.
inline constexpr std::uint64_t unseen = ~std::uint64_t{0};

/// A sequential object.
/** `step` returns the next state, or nothing if the result is impossible in this state. Without a
 * result it returns the state after the operation took effect.
 *
 * Optional members make the search faster:
 * - `key(operation)`: operations with different keys are independent.
 * - `changes(operation, result)`: false if the operation leaves every state as it is.
 * - `passed(state, operation, result)`: true if the result is impossible in this state and in all
 *   that follow.
 * - `written(operation)`, `shown(operation, result)`: a pointer to the written value, or null; the
 *   value that a result contains, or `unseen`. Values only move and are never compared.
 * - `foresee(state, operations)`: the initial state with knowledge from all results, by which
 * `step` excludes more. It must not exclude a linearization. Not part of the state's equality. */
template <class Model>
concept sequential_model = std::equality_comparable<typename Model::State>
  && std::copyable<typename Model::State> && std::equality_comparable<typename Model::Operation>
  && std::equality_comparable<typename Model::Result>
  && requires(const typename Model::State& state, const typename Model::Operation& what,
    const std::optional<typename Model::Result>& result) {
       {
         Model::initial()
       } -> std::same_as<typename Model::State>;
       {
         Model::step(state, what, result)
       } -> std::same_as<std::optional<typename Model::State>>;
       {
         Model::hash(state)
       } -> std::convertible_to<std::size_t>;
       {
         Model::text(state)
       } -> std::convertible_to<std::string>;
       {
         Model::text(what, result)
       } -> std::convertible_to<std::string>;
     };

template <class Model>
struct recorded_operation
{
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  std::uint32_t process;
  std::uint64_t called;
  std::uint64_t returned; ///< `never` if the outcome is unknown
  typename Model::Operation operation;
  std::optional<typename Model::Result> result;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_SEQUENTIAL_MODEL_HPP
