#include "operator/kube/object/object.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace swarm::kube {
namespace {

using nlohmann::json;

// The member; null: `object` is not an object, or has no such member (operator[] would assert).
const json* Member(const json* object, const std::string& name) {
  if (!object || !object->is_object()) return nullptr;
  const auto found = object->find(name);
  return found == object->end() ? nullptr : &*found;
}

std::string TextOf(const json* value) {
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

std::string MetadataOf(const json& object, const std::string& field) {
  return TextOf(Member(Member(&object, "metadata"), field));
}

/// An array, maybe empty.
const json& OwnersOf(const json& object) {
  static const json kNone = json::array();
  const json* owners = Member(Member(&object, "metadata"), "ownerReferences");
  return owners && owners->is_array() ? *owners : kNone;
}

bool Controls(const json& owner) { return owner.is_object() && owner.value("controller", false); }

}  // namespace

PackedObject::PackedObject(const json& object) {
  std::vector<std::uint8_t> bytes = json::to_cbor(object);
  bytes.shrink_to_fit();
  bytes_ = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
}

Object PackedObject::Unpack() const {
  return std::make_shared<const json>(json::from_cbor(*bytes_));
}

ObjectName ParseObjectName(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {"", std::string(text)};
  return {std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
}

ObjectName NameOf(const json& object) {
  return {MetadataOf(object, "namespace"), MetadataOf(object, "name")};
}

std::string UidOf(const json& object) { return MetadataOf(object, "uid"); }

std::string ResourceVersionOf(const json& object) { return MetadataOf(object, "resourceVersion"); }

std::string LabelOf(const json& object, const std::string& label) {
  return TextOf(Member(Member(Member(&object, "metadata"), "labels"), label));
}

std::string TextAt(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  return object.contains(place) ? TextOf(&object.at(place)) : std::string();
}

void TrimBookkeeping(json& object) {
  if (!Member(Member(&object, "metadata"), "name")) return;
  json& metadata = object["metadata"];
  metadata.erase("managedFields");
  if (Member(&metadata, "annotations") && metadata["annotations"].is_object()) {
    metadata["annotations"].erase("kubectl.kubernetes.io/last-applied-configuration");
  }
}

bool IsOwnedBy(const nlohmann::json& object, const std::string& uid, Ownership ownership) {
  return std::ranges::any_of(OwnersOf(object), [&](const nlohmann::json& owner) {
    return TextAt(owner, "/uid") == uid && (ownership == Ownership::kAny || Controls(owner));
  });
}

std::string ControllerOf(const nlohmann::json& object) {
  const nlohmann::json& owners = OwnersOf(object);
  const auto owner = std::ranges::find_if(owners, Controls);
  return owner == owners.end() ? "" : TextAt(*owner, "/uid");
}

bool IsOwned(const nlohmann::json& object) { return !OwnersOf(object).empty(); }

}  // namespace swarm::kube
