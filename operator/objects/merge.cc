#include "operator/objects/merge.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace swarm::objects {
namespace {

using nlohmann::json;

// Limits the depth of untrusted templates.
constexpr int kDepthMax = 64;

struct KeyedList {
  std::string_view name;
  const char* key;
  bool items_merge;  ///< false: an item replaces the other, because their fields exclude each other
};
constexpr std::array<KeyedList, 10> kKeyedLists{{{"containers", "name", true},
                                                 {"initContainers", "name", true},
                                                 {"ports", "name", true},
                                                 {"env", "name", false},
                                                 {"envFrom", "secretRef", false},
                                                 {"volumes", "name", false},
                                                 {"imagePullSecrets", "name", false},
                                                 {"resourceClaims", "name", false},
                                                 {"claims", "name", false},
                                                 {"volumeMounts", "mountPath", false}}};

const KeyedList* FindKeyedList(std::string_view name) {
  const auto* found = std::find_if(kKeyedLists.begin(), kKeyedLists.end(),
                                   [&](const KeyedList& each) { return each.name == name; });
  return found == kKeyedLists.end() ? nullptr : found;
}

const char* KindOf(const json& value) {
  return value.is_object() ? "a mapping" : value.is_array() ? "a list" : "a single value";
}

Status Place(const json& over, const std::string& path, std::string_view name, int depth,
             json* under);

Status MergeObject(const json& over, const std::string& path, int depth, json* under) {
  for (const auto& [key, value] : over.items()) {
    if (value.is_null()) continue;
    RETURN_IF_ERROR(Place(value, path + "." + key, key, depth + 1, &(*under)[key]));
  }
  return {};
}

Status MergeKeyed(const json& over, const std::string& path, const KeyedList& list, int depth,
                  json* under) {
  for (std::size_t i = 0; i < over.size(); ++i) {
    const json& item = over[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    if (!item.is_object()) return InvalidArgument(at + ": is " + KindOf(item) + ", not a mapping");
    const auto key = item.find(list.key);
    const auto same = key == item.end()
                          ? under->end()
                          : std::find_if(under->begin(), under->end(), [&](const json& each) {
                              // One Secret may be there with several prefixes, in envFrom.
                              return each.is_object() && each.contains(list.key) &&
                                     each[list.key] == *key &&
                                     each.value("prefix", json()) == item.value("prefix", json());
                            });
    if (same == under->end()) {
      under->push_back(item);
    } else if (list.items_merge) {
      RETURN_IF_ERROR(MergeObject(item, at, depth + 1, &*same));
    } else {
      *same = item;
    }
  }
  return {};
}

Status Place(const json& over, const std::string& path, std::string_view name, int depth,
             json* under) {
  if (depth > kDepthMax) return InvalidArgument(path + ": is nested too deep");
  if (under->is_null()) {
    *under = over;
    return {};
  }
  const bool same_kind =
      over.is_object() == under->is_object() && over.is_array() == under->is_array();
  if (!same_kind) {
    return InvalidArgument(path + ": is " + KindOf(over) + ", not " + KindOf(*under));
  }
  if (over.is_object()) return MergeObject(over, path, depth, under);
  const KeyedList* list = over.is_array() ? FindKeyedList(name) : nullptr;
  if (list) return MergeKeyed(over, path, *list, depth, under);
  *under = over;
  return {};
}

}  // namespace

Status Merge(const json& over, const std::string& path, json* under) {
  return over.is_null() ? Status() : Place(over, path, "", 0, under);
}

}  // namespace swarm::objects
