// The words of an enumeration: one table, from which values are written and read.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace swarm {

/// Specialize it for an enumeration E with `static constexpr auto kNames = NameTable<E>({...})`, a
/// name for every value.
template <typename E>
struct EnumNames;

template <typename E, std::size_t n>
constexpr std::array<std::pair<E, std::string_view>, n> NameTable(
    const std::pair<E, std::string_view> (&names)[n]) {
  return std::to_array(names);
}

template <typename E>
concept NamedEnum = requires { EnumNames<E>::kNames; };

/// The value's name; empty for a number that is no value of E.
template <NamedEnum E>
constexpr std::string_view NameOf(E value) {
  for (const auto& [known, name] : EnumNames<E>::kNames) {
    if (known == value) return name;
  }
  return {};
}

/// The value of that name.
template <NamedEnum E>
constexpr std::optional<E> FindEnum(std::string_view name) {
  for (const auto& [value, known] : EnumNames<E>::kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace swarm
