//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_CONTAINER_MODELS_HPP
#define BOOST_RDMA_TEST_COMMON_CONTAINER_MODELS_HPP

// Sequential containers for why_not_linearizable(), as those of basic_models.hpp.

#include "common/basic_models.hpp"
#include "common/linearizability.hpp"
#include "common/persistent_sequence.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace test {

/// A map, checked for each key alone: its state is the value of one key.
struct map_model
{
  enum class kind : std::uint8_t
  {
    find,
    insert, ///< fails if the key is present
    update, ///< fails if it is absent
    erase   ///< fails if it is absent
  };
  struct Operation
  {
    kind what;
    std::uint64_t key;
    std::uint64_t value = 0;
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    bool done = true;             ///< of find: the key is present
    std::uint64_t value = unseen; ///< of find, if the key is present
    bool operator==(const Result&) const = default;
  };
  using State = std::optional<std::uint64_t>;

  static State initial() { return std::nullopt; }
  static std::uint64_t key(const Operation& what) { return what.key; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    const bool able = now.has_value() != (what.what == kind::insert);
    if (result && result->done != able)
      return std::nullopt;
    if (what.what == kind::find && result && now && !detail::matches(result->value, *now))
      return std::nullopt;
    if (!able || what.what == kind::find)
      return now;
    return what.what == kind::erase ? State() : State(what.value);
  }
  static std::size_t hash(const State& now) { return now ? *now + 1 : 0; }
  static bool changes(const Operation& what, const std::optional<Result>& result)
  {
    return what.what != kind::find && (!result || result->done);
  }
  static std::uint64_t* written(Operation& what)
  {
    return what.what == kind::insert || what.what == kind::update ? &what.value : nullptr;
  }
  static std::uint64_t shown(const Operation& what, const Result& result)
  {
    return what.what == kind::find && result.done ? result.value : unseen;
  }
  static std::string text(const State& now)
  {
    return now ? "value " + detail::number(*now) : "absent";
  }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    switch (what.what)
    {
    case kind::find:
      return detail::call_text("find", what.key)
        + (!result ? "" : " -> " + (result->done ? detail::number(result->value) : "absent"));
    case kind::erase:
      return detail::call_text("erase", what.key) + outcome(result);
    case kind::insert:
    case kind::update:
      break;
    }
    const char* const name = what.what == kind::insert ? "insert" : "update";
    return detail::call_text(name, what.key, what.value) + outcome(result);
  }

private:
  static const char* outcome(const std::optional<Result>& result)
  {
    return !result ? "" : result->done ? " -> done" : " -> refused";
  }
};

/// A log.
struct log_model
{
  enum class kind : std::uint8_t
  {
    append,
    read
  };
  struct Operation
  {
    kind what;
    std::uint64_t value; ///< of append; of read the index
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    std::uint64_t value = unseen; ///< of append the index; of read the value
    bool present = true;          ///< of read
    bool operator==(const Result&) const = default;
  };
  struct State
  {
    persistent_sequence items = {};
    std::shared_ptr<const detail::known_places> indexes = nullptr;

    friend bool operator==(const State& a, const State& b) { return a.items == b.items; }
  };

  static State initial() { return {}; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    if (what.what == kind::append)
    {
      if (result && !detail::matches(result->value, now.items.size()))
        return std::nullopt;
      if (now.indexes != nullptr && !now.indexes->permit(now.items.size(), what.value))
        return std::nullopt;
      State next = now;
      next.items.push_back(what.value);
      return next;
    }
    const bool present = what.value < now.items.size();
    if (result
      && (result->present != present
        || (present && !detail::matches(result->value, now.items[what.value]))))
      return std::nullopt;
    return now;
  }
  static State foresee(const State& initial, const std::vector<recorded_operation<log_model>>& all)
  {
    auto known = std::make_shared<detail::known_places>();
    for (std::uint64_t i = 0; i != initial.items.size(); ++i)
      known->add_written(initial.items[i]);
    for (const auto& one : all)
    {
      const bool appends = one.operation.what == kind::append;
      if (appends)
        known->add_written(one.operation.value);
      if (one.result && appends)
        known->add_shown(one.result->value, one.operation.value);
      else if (one.result && one.result->present)
        known->add_shown(one.operation.value, one.result->value);
    }
    return {initial.items, std::move(known)};
  }
  static std::size_t hash(const State& now) { return now.items.hash(); }
  static bool changes(const Operation& what, const std::optional<Result>&)
  {
    return what.what == kind::append;
  }
  static bool passed(const State& now, const Operation& what, const Result& result)
  {
    if (what.what == kind::append)
      return result.value < now.items.size();
    return what.value < now.items.size() && !step(now, what, result); // an element never changes
  }
  static std::uint64_t* written(Operation& what)
  {
    return what.what == kind::append ? &what.value : nullptr;
  }
  static std::uint64_t shown(const Operation& what, const Result& result)
  {
    return what.what == kind::read && result.present ? result.value : unseen;
  }
  static std::string text(const State& now)
  {
    return "size " + detail::number(now.items.size())
      + (now.items.size() == 0 ? ""
                               : ", last value " + detail::number(now.items[now.items.size() - 1]));
  }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    const char* const name = what.what == kind::append ? "append" : "read";
    return detail::call_text(name, what.value)
      + (!result ? "" : " -> " + (result->present ? detail::number(result->value) : "absent"));
  }
};

/// A FIFO queue. Its initial state has the capacity.
struct ring_model
{
  struct Operation
  {
    bool pushes; ///< otherwise it pops
    std::uint64_t value = 0;
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    bool done = true;             ///< false: full (push) or empty (pop)
    std::uint64_t value = unseen; ///< of pop
    bool operator==(const Result&) const = default;
  };
  struct State
  {
    std::uint64_t capacity = ~std::uint64_t{0};
    persistent_sequence items = {};
    bool operator==(const State&) const = default;
  };

  static State initial() { return {}; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    const bool able = what.pushes ? now.items.size() < now.capacity : now.items.size() != 0;
    if (result && result->done != able)
      return std::nullopt;
    if (!what.pushes && able && result && !detail::matches(result->value, now.items[0]))
      return std::nullopt;
    State next = now;
    if (able && what.pushes)
      next.items.push_back(what.value);
    else if (able)
      next.items.pop_front();
    return next;
  }
  static std::size_t hash(const State& now) { return now.items.hash(); }
  static bool changes(const Operation&, const std::optional<Result>& result)
  {
    return !result || result->done;
  }
  static std::uint64_t* written(Operation& what) { return what.pushes ? &what.value : nullptr; }
  static std::uint64_t shown(const Operation& what, const Result& result)
  {
    return !what.pushes && result.done ? result.value : unseen;
  }
  static std::string text(const State& now)
  {
    return now.items.size() == 0
      ? "empty"
      : "size " + detail::number(now.items.size()) + ", first " + detail::number(now.items[0]);
  }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    std::string text = what.pushes ? detail::call_text("push", what.value) : "pop()";
    if (result)
      text += !result->done ? " -> refused"
        : what.pushes       ? " -> done"
                            : " -> " + detail::number(result->value);
    return text;
  }
};

extern template std::string why_not_linearizable(
  const history<map_model>&, const map_model::State&);
extern template std::string why_not_linearizable(
  const history<log_model>&, const log_model::State&);
extern template std::string why_not_linearizable(
  const history<ring_model>&, const ring_model::State&);

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_CONTAINER_MODELS_HPP
