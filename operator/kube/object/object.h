// Kubernetes objects as this folder hands them about: immutable JSON, shared, and their names.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::kube {

/// Never null where a function promises an object.
using Object = std::shared_ptr<const nlohmann::json>;

/// An object in a tenth of the memory that its JSON takes as a tree: for keeping many of them.
class PackedObject {
 public:
  explicit PackedObject(const nlohmann::json& object);
  Object Unpack() const;

 private:
  std::vector<std::uint8_t> bytes_;  // CBOR
};

/// Takes from an object what nobody will read, before it is kept. Must not throw.
using TrimObject = std::function<void(nlohmann::json&)>;

/// What tells an object from the others of its resource. The namespace is empty for objects of the
/// whole cluster.
struct ObjectName {
  std::string ns;
  std::string name;

  /// "ns/name", or "name".
  std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
  auto operator<=>(const ObjectName&) const = default;
};

/// The other way round. Without a slash the namespace is empty.
ObjectName ParseObjectName(std::string_view text);

/// What metadata says; empty strings where it says nothing, or where `object` is no object at all.
ObjectName NameOf(const nlohmann::json& object);
std::string UidOf(const nlohmann::json& object);
std::string ResourceVersionOf(const nlohmann::json& object);
std::string LabelOf(const nlohmann::json& object, const std::string& label);

/// The text at `pointer` ("/metadata/name"), or an empty one if there is none.
std::string TextAt(const nlohmann::json& object, const char* pointer);

/// Removes metadata.managedFields and kubectl's copy of what was applied: the greater part of many
/// objects, read by nobody here.
void TrimBookkeeping(nlohmann::json& object);

}  // namespace swarm::kube
