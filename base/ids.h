// Numbers and names that must not be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace swarm {

/// A number with a type of its own. Ordered; 0 by default.
template <typename Tag>
struct Id {
  std::uint64_t value = 0;
  constexpr Id() = default;
  constexpr explicit Id(std::uint64_t v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id Next() const { return Id(value + 1); }
};

/// A name with a type of its own.
template <typename Tag>
struct Name {
  std::string value;
  Name() = default;
  explicit Name(std::string v) : value(std::move(v)) {}
  auto operator<=>(const Name&) const = default;
  bool empty() const { return value.empty(); }
};

}  // namespace swarm

template <typename Tag>
struct std::hash<swarm::Id<Tag>> {
  std::size_t operator()(const swarm::Id<Tag>& id) const noexcept {
    return std::hash<std::uint64_t>()(id.value);
  }
};
template <typename Tag>
struct std::hash<swarm::Name<Tag>> {
  std::size_t operator()(const swarm::Name<Tag>& name) const noexcept {
    return std::hash<std::string>()(name.value);
  }
};
