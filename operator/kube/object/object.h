// Kubernetes objects as this folder uses them: shared immutable JSON, and their names.
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

/// Null only where a declaration says so.
using Object = std::shared_ptr<const nlohmann::json>;

/// An object in a compact form, which takes a tenth of the memory of its JSON tree. Copies share
/// it.
class PackedObject {
 public:
  explicit PackedObject(const nlohmann::json& object);
  Object Unpack() const;
  /// The same for copies; another object has another identity as long as one of these lives.
  const void* identity() const { return bytes_.get(); }

 private:
  std::shared_ptr<const std::vector<std::uint8_t>> bytes_;  // CBOR
};

/// Removes the members that are not needed before an object is stored. Must not throw.
using TrimObject = std::function<void(nlohmann::json&)>;

/// Identifies an object within its resource. Cluster-scoped objects have an empty namespace.
struct ObjectName {
  std::string ns;
  std::string name;

  /// "ns/name", or "name".
  std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
  auto operator<=>(const ObjectName&) const = default;
};

/// The inverse of ToString. Without a slash, the namespace is empty.
ObjectName ParseObjectName(std::string_view text);

/// Read members of metadata; empty: the member is missing, or `object` is not an object.
ObjectName NameOf(const nlohmann::json& object);
std::string UidOf(const nlohmann::json& object);
std::string ResourceVersionOf(const nlohmann::json& object);
std::string LabelOf(const nlohmann::json& object, const std::string& label);

/// Whether metadata.ownerReferences names this UID; with kController, as the controller.
enum class Ownership { kAny, kController };
bool IsOwnedBy(const nlohmann::json& object, const std::string& uid,
               Ownership ownership = Ownership::kAny);

/// The UID of the owner that metadata.ownerReferences names as the controller; empty: there is
/// none.
std::string ControllerOf(const nlohmann::json& object);

/// Whether metadata.ownerReferences names any object.
bool IsOwned(const nlohmann::json& object);

/// The text at `pointer` ("/metadata/name"); empty: there is none.
std::string TextAt(const nlohmann::json& object, const char* pointer);

/// Removes metadata.managedFields and kubectl's copy of the applied object. They are the greater
/// part of many objects, and the operator does not read them.
void TrimBookkeeping(nlohmann::json& object);

}  // namespace swarm::kube
