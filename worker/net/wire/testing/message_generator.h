// For tests: messages with every field filled, and their comparison, field by field. Both inspect
// the structs themselves, so a field that is added to worker/protocol/messages/message.h is in
// these tests at once.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "base/shared_vector.h"
#include "worker/protocol/messages/message.h"

namespace swarm::net {

/// Converts to anything: how many of them an aggregate takes is how many fields it has.
struct AnyValue {
  template <typename T>
  operator T() const;  // NOLINT: implicit, never defined
};

template <typename T, typename... Values>
constexpr std::size_t FieldCount() {
  if constexpr (requires { T{Values()..., AnyValue()}; }) {
    return FieldCount<T, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

/// Calls visit(field...) with all fields of an aggregate.
template <typename T, typename Visitor>
void WithFields(T& t, const Visitor& visit) {
  constexpr std::size_t kCount = FieldCount<std::remove_const_t<T>>();
  static_assert(kCount <= 13 || kCount == 21, "add a line for this number of fields");
  if constexpr (kCount == 0) {
    visit();
  } else if constexpr (kCount == 1) {
    auto& [a] = t;
    visit(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = t;
    visit(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = t;
    visit(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = t;
    visit(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = t;
    visit(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = t;
    visit(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = t;
    visit(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = t;
    visit(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = t;
    visit(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kCount == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = t;
    visit(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (kCount == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = t;
    visit(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (kCount == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    visit(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (kCount == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = t;
    visit(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v] = t;
    visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v);
  }
}

/// How many values an enum of the protocol has, from 0.
template <typename Enum>
struct EnumValues;
template <NamedEnum Enum>
struct EnumValues<Enum> : std::integral_constant<int, EnumNames<Enum>::kNames.size()> {};
template <>
struct EnumValues<protocol::TaskKind> : std::integral_constant<int, 2> {};
template <>
struct EnumValues<protocol::TaskReport::Event> : std::integral_constant<int, 5> {};
template <>
struct EnumValues<protocol::ReduceChunk::Phase> : std::integral_constant<int, 2> {};
template <>
struct EnumValues<protocol::FetchKind> : std::integral_constant<int, 4> {};
template <>
struct EnumValues<protocol::WorkerState> : std::integral_constant<int, 5> {};

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
inline constexpr bool kIsShared = false;
template <typename T>
inline constexpr bool kIsShared<SharedVector<T>> = true;
template <typename T>
inline constexpr bool kIsId = false;
template <typename Tag>
inline constexpr bool kIsId<Id<Tag>> = true;
template <typename T>
inline constexpr bool kIsName = false;
template <typename Tag>
inline constexpr bool kIsName<Name<Tag>> = true;

/// Gives every field, and the fields of its fields, a value that is not its default.
template <typename T>
void FillFields(Rng& rng, T* t) {
  if constexpr (std::is_same_v<T, bool>) {
    *t = rng.Below(2) == 0;
  } else if constexpr (std::is_enum_v<T>) {
    *t = static_cast<T>(rng.Below(EnumValues<T>::value));
  } else if constexpr (std::is_integral_v<T>) {
    *t = static_cast<T>(rng() >> rng.Below(64)) | 1;
  } else if constexpr (std::is_floating_point_v<T>) {
    *t = (rng.Uniform() + 0x1p-60) * (rng.Below(2) == 0 ? -1e9 : 1e-9);
  } else if constexpr (std::is_same_v<T, std::string>) {
    *t = "ü" + std::to_string(rng.Below(1000000));
  } else if constexpr (std::is_same_v<T, Bytes>) {
    *t = Bytes::Copy("\xff" + std::to_string(rng.Below(1000000)));
  } else if constexpr (kIsId<T>) {
    t->value = rng() >> rng.Below(64) | 1;
  } else if constexpr (kIsName<T>) {
    FillFields(rng, &t->value);
  } else if constexpr (IsVector<T>::value) {
    t->resize(1 + rng.Below(4));
    for (auto& element : *t) FillFields(rng, &element);
  } else if constexpr (kIsShared<T>) {
    FillFields(rng, &t->Own());
  } else if constexpr (std::is_same_v<T, protocol::Retired>) {  // its numbers have an order
    FillFields(rng, &t->prefix);
    for (std::uint64_t i = rng.Below(4); i > 0; --i) {
      t->except.push_back(t->below += rng.Below(3));
      ++t->below;
    }
    t->below += 1 + rng.Below(3);
  } else {
    WithFields(*t, [&](auto&... fields) { (FillFields(rng, &fields), ...); });
  }
}

/// Whether all fields, and the fields of fields, are equal.
template <typename T>
bool SameFields(const T& a, const T& b) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> ||
                kIsId<T> || kIsName<T>) {
    return a == b;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return a.text() == b.text();
  } else if constexpr (IsVector<T>::value) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!SameFields(a[i], b[i])) return false;
    }
    return true;
  } else if constexpr (kIsShared<T>) {
    return SameFields(a.elements(), b.elements());
  } else {
    bool same = true;
    WithFields(a, [&](const auto&... of_a) {
      WithFields(b, [&](const auto&... of_b) {
        if constexpr (sizeof...(of_a) == sizeof...(of_b)) same = (SameFields(of_a, of_b) && ...);
      });
    });
    return same;
  }
}

inline bool SameFields(const protocol::Message& a, const protocol::Message& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& of_a) { return SameFields(of_a, std::get<std::decay_t<decltype(of_a)>>(b)); },
      a);
}

/// The message of kind `index` (its place in protocol::Message), every field filled.
template <std::size_t kIndex = 0>
protocol::Message MakeMessage(Rng& rng, std::size_t index) {
  if (index != kIndex) {
    if constexpr (kIndex + 1 < std::variant_size_v<protocol::Message>) {
      return MakeMessage<kIndex + 1>(rng, index);
    }
  }
  std::variant_alternative_t<kIndex, protocol::Message> message;
  FillFields(rng, &message);
  return message;
}

}  // namespace swarm::net
