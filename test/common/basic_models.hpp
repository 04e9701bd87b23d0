//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_BASIC_MODELS_HPP
#define BOOST_RDMA_TEST_COMMON_BASIC_MODELS_HPP

// Sequential objects for why_not_linearizable(). Operations and results are trivially copyable, so
// that a history_recorder can hold them. Each field of a result can be `unseen`.

#include "common/linearizability.hpp"
#include "common/sequential_model.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace test {

namespace detail {

inline bool matches(std::uint64_t seen, std::uint64_t actual)
{
  return seen == unseen || seen == actual;
}

inline std::string number(std::uint64_t value)
{
  return value == unseen ? "?" : std::to_string(value);
}

/// `name(a, b)`; arguments are optional.
template <class... Numbers>
std::string call_text(const char* name, Numbers... arguments)
{
  std::string text;
  ((text += (text.empty() ? "" : ", ") + number(arguments)), ...);
  return name + ("(" + text + ")");
}

/// Values at places that are written once, as results of a whole history show them.
class known_places
{
public:
  void add_written(std::uint64_t value) { ++writers_[value]; }
  void add_shown(std::uint64_t place, std::uint64_t value)
  {
    if (place == unseen || value == unseen)
      return;
    values_.try_emplace(place, value);
    if (const auto [known, fresh] = places_.try_emplace(value, place); known->second != place)
      known->second = unseen;
  }

  /// Returns false if this place shows another value, or this value, of one writer, another place.
  bool permit(std::uint64_t place, std::uint64_t value) const
  {
    if (const auto shown = values_.find(place); shown != values_.end() && shown->second != value)
      return false;
    const auto known = places_.find(value);
    return known == places_.end() || known->second == unseen || known->second == place
      || writers_.at(value) != 1;
  }

private:
  std::unordered_map<std::uint64_t, std::uint64_t> values_, places_, writers_;
};

} // namespace detail

/// A value with a version, which each store increments.
struct register_model
{
  enum class kind : std::uint8_t
  {
    load,
    store,
    compare_store ///< stores if the version is `expected`
  };
  struct Operation
  {
    kind what;
    std::uint64_t value = 0;
    std::uint64_t expected = 0;
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    std::uint64_t version = unseen; ///< after the operation
    std::uint64_t value = unseen;   ///< of load
    bool stored = false;            ///< of compare_store
    bool operator==(const Result&) const = default;
  };
  struct State
  {
    std::uint64_t value = 0;
    std::uint64_t version = 0;
    std::shared_ptr<const detail::known_places> versions = nullptr;

    friend bool operator==(const State& a, const State& b)
    {
      return a.value == b.value && a.version == b.version;
    }
  };

  static State initial() { return {}; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    const bool compares = what.what == kind::compare_store;
    const bool stores = what.what == kind::store || (compares && now.version == what.expected);
    if (stores && now.versions != nullptr && !now.versions->permit(now.version + 1, what.value))
      return std::nullopt;
    const State next = stores ? State{what.value, now.version + 1, now.versions} : now;
    if (!result)
      return next;
    if (!detail::matches(result->version, next.version) || (compares && result->stored != stores)
      || (what.what == kind::load && !detail::matches(result->value, next.value)))
      return std::nullopt;
    return next;
  }
  static State foresee(
    const State& initial, const std::vector<recorded_operation<register_model>>& all)
  {
    auto known = std::make_shared<detail::known_places>();
    known->add_written(initial.value);
    for (const auto& one : all)
    {
      const bool loads = one.operation.what == kind::load;
      const bool stores = one.operation.what == kind::store;
      if (!loads)
        known->add_written(one.operation.value);
      if (one.result && (loads || stores || one.result->stored))
        known->add_shown(one.result->version, loads ? one.result->value : one.operation.value);
    }
    return {initial.value, initial.version, std::move(known)};
  }
  static std::size_t hash(const State& now)
  {
    return now.value * 0x9e3779b97f4a7c15u + now.version;
  }
  static bool changes(const Operation& what, const std::optional<Result>& result)
  {
    return what.what == kind::store
      || (what.what == kind::compare_store && (!result || result->stored));
  }
  static bool passed(const State& now, const Operation& what, const Result& result)
  {
    const bool stored = what.what == kind::compare_store && result.stored;
    return result.version < now.version || (stored && what.expected < now.version);
  }
  static std::uint64_t* written(Operation& what)
  {
    return what.what == kind::load ? nullptr : &what.value;
  }
  static std::uint64_t shown(const Operation& what, const Result& result)
  {
    return what.what == kind::load ? result.value : unseen;
  }
  static std::string text(const State& now)
  {
    return "value " + detail::number(now.value) + " version " + detail::number(now.version);
  }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    const std::string version = result ? " version " + detail::number(result->version) : "";
    switch (what.what)
    {
    case kind::load:
      return "load()" + (result ? " -> " + detail::number(result->value) + version : "");
    case kind::store:
      return detail::call_text("store", what.value) + (result ? " ->" + version : "");
    case kind::compare_store:
      break;
    }
    return detail::call_text("compare_store", what.expected, what.value)
      + (result ? (result->stored ? " -> stored" : " -> refused") + version : "");
  }
};

/// A sum.
struct counter_model
{
  struct Operation
  {
    std::uint64_t amount = 0; ///< 0 is a load
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    std::uint64_t before = unseen; ///< the sum before this operation
    bool operator==(const Result&) const = default;
  };
  using State = std::uint64_t;

  static State initial() { return 0; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    if (result && !detail::matches(result->before, now))
      return std::nullopt;
    return now + what.amount;
  }
  static std::size_t hash(const State& now) { return now; }
  static bool changes(const Operation& what, const std::optional<Result>&)
  {
    return what.amount != 0;
  }
  static bool passed(const State& now, const Operation&, const Result& result)
  {
    return result.before < now; // no test adds so much that the sum wraps around
  }
  static std::string text(const State& now) { return detail::number(now); }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    return (what.amount == 0 ? "load()" : detail::call_text("add", what.amount))
      + (result ? " -> " + detail::number(result->before) : "");
  }
};

/// A mutex with fencing tokens, whose holder can lose it.
struct mutex_model
{
  enum class kind : std::uint8_t
  {
    lock,
    unlock,
    lose ///< the lease of `who` ends. Usually without a result: it ends at some time or not.
  };
  struct Operation
  {
    kind what;
    std::uint64_t who; ///< the holder's name, from 1
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    bool done = true;             ///< false: another has it (lock), or `who` does not (the others)
    std::uint64_t token = unseen; ///< of lock, greater than all before it
    bool operator==(const Result&) const = default;
  };
  struct State
  {
    std::uint64_t holder = 0; // 0: nobody
    std::uint64_t token = 0;
    bool operator==(const State&) const = default;
  };

  static State initial() { return {}; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    const bool locks = what.what == kind::lock;
    const bool able = now.holder == (locks ? 0 : what.who);
    if (result && result->done != able)
      return std::nullopt;
    if (!able)
      return now;
    State next{locks ? what.who : 0, now.token};
    // A token that nobody saw can be any number, so it restricts no later token.
    if (locks && result && result->token != unseen)
    {
      if (result->token <= now.token)
        return std::nullopt;
      next.token = result->token;
    }
    return next;
  }
  static std::size_t hash(const State& now) { return now.holder * 0x9e3779b97f4a7c15u + now.token; }
  static bool changes(const Operation&, const std::optional<Result>& result)
  {
    return !result || result->done;
  }
  static bool passed(const State& now, const Operation& what, const Result& result)
  {
    return what.what == kind::lock && result.done && result.token <= now.token;
  }
  static std::string text(const State& now)
  {
    return (now.holder == 0 ? "free" : "held by " + detail::number(now.holder)) + ", last token "
      + detail::number(now.token);
  }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    const char* const name = what.what == kind::lock ? "lock"
      : what.what == kind::unlock                    ? "unlock"
                                                     : "lose";
    std::string text = detail::call_text(name, what.who);
    if (result)
      text += result->done ? " -> done" : " -> refused";
    if (result && result->done && what.what == kind::lock)
      text += ", token " + detail::number(result->token);
    return text;
  }
};

/// Permits. Its state is the number of free ones: the initial state has all.
struct semaphore_model
{
  struct Operation
  {
    bool acquires; ///< otherwise it releases
    bool operator==(const Operation&) const = default;
  };
  struct Result
  {
    bool done = true; ///< false: no permit was free. A release is always done.
    bool operator==(const Result&) const = default;
  };
  using State = std::uint64_t;

  static State initial() { return 1; }
  static std::optional<State> step(
    const State& now, const Operation& what, const std::optional<Result>& result)
  {
    const bool able = !what.acquires || now != 0;
    if (result && result->done != able)
      return std::nullopt;
    return !able ? now : what.acquires ? now - 1 : now + 1;
  }
  static std::size_t hash(const State& now) { return now; }
  static bool changes(const Operation&, const std::optional<Result>& result)
  {
    return !result || result->done;
  }
  static std::string text(const State& now) { return detail::number(now) + " free"; }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    return std::string(what.acquires ? "acquire()" : "release()")
      + (!result         ? ""
          : result->done ? " -> done"
                         : " -> refused");
  }
};

extern template std::string why_not_linearizable(
  const history<register_model>&, const register_model::State&);
extern template std::string why_not_linearizable(
  const history<counter_model>&, const counter_model::State&);
extern template std::string why_not_linearizable(
  const history<mutex_model>&, const mutex_model::State&);
extern template std::string why_not_linearizable(
  const history<semaphore_model>&, const semaphore_model::State&);

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_BASIC_MODELS_HPP
