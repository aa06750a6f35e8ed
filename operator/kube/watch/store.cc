#include "operator/kube/watch/store.h"

#include <nlohmann/json.hpp>

namespace swarm::kube {

Object Store::Get(const ObjectName& name) const {
  const std::optional<PackedObject> packed = GetPacked(name);
  return packed ? packed->Unpack() : nullptr;
}

std::optional<PackedObject> Store::GetPacked(const ObjectName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  return found == objects_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Object> Store::List(const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> listed;
  for (auto at = ns.empty() ? objects_.begin() : objects_.lower_bound({ns, ""});
       at != objects_.end() && (ns.empty() || at->first.ns == ns); ++at) {
    listed.push_back(at->second.Unpack());
  }
  return listed;
}

std::vector<Object> Store::ByIndex(std::size_t index, const std::string& key) const {
  std::vector<Object> found;
  for (const PackedObject& packed : PackedByIndex(index, key)) found.push_back(packed.Unpack());
  return found;
}

std::vector<PackedObject> Store::PackedByIndex(std::size_t index, const std::string& key) const {
  const std::lock_guard lock(mutex_);
  std::vector<PackedObject> found;
  const auto members = indexes_.at(index).find(key);
  if (members == indexes_[index].end()) return found;
  found.reserve(members->second.size());
  for (const auto* place : members->second) found.push_back(place->second);
  return found;
}

std::size_t Store::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

void Store::Index(const Objects::value_type& place, const Object& object, bool add) {
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    const std::string key = index_keys_[i](*object);
    if (key.empty()) continue;
    Members& members = indexes_[i][key];
    if (add) {
      members.insert(&place);
    } else {
      members.erase(&place);
    }
    if (members.empty()) indexes_[i].erase(key);
  }
}

std::optional<Change> Store::Put(const Object& object) {
  const std::lock_guard lock(mutex_);
  const ObjectName name = NameOf(*object);
  const auto [place, is_new] = objects_.try_emplace(name, *object);
  Object before;
  if (!is_new) {
    before = place->second.Unpack();
    // Versions may only be compared for equality.
    if (ResourceVersionOf(*before) == ResourceVersionOf(*object) &&
        UidOf(*before) == UidOf(*object)) {
      return std::nullopt;
    }
    Index(*place, before, /*add=*/false);
    place->second = PackedObject(*object);
  }
  Index(*place, object, /*add=*/true);
  return Change{name, before, object};
}

std::optional<Change> Store::Remove(const ObjectName& name, const Object& last) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  if (found == objects_.end()) return std::nullopt;
  const Object known = found->second.Unpack();
  Index(*found, known, /*add=*/false);
  objects_.erase(found);
  // The event has the last state of the object, which is newer than the stored one.
  return Change{name, last ? last : known, nullptr};
}

void Store::Replace(const std::vector<PackedObject>& objects, const OnChange& on_change,
                    const std::string& ns) {
  std::set<ObjectName> listed;
  for (const PackedObject& packed : objects) {
    const Object object = packed.Unpack();
    listed.insert(NameOf(*object));
    if (const auto change = Put(object)) on_change(*change);
  }
  for (const ObjectName& name : NamesWithout(listed, ns)) {
    if (const auto change = Remove(name, nullptr)) on_change(*change);
  }
}

std::vector<ObjectName> Store::NamesWithout(const std::set<ObjectName>& listed,
                                            const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<ObjectName> names;
  for (const auto& [name, object] : objects_) {
    if ((ns.empty() || name.ns == ns) && !listed.contains(name)) names.push_back(name);
  }
  return names;
}

std::optional<Change> Store::Apply(const WatchEvent& event) {
  switch (event.type) {
    case WatchEvent::Type::kAdded:
    case WatchEvent::Type::kModified:
      return Put(event.object);
    case WatchEvent::Type::kDeleted:
      return Remove(NameOf(*event.object), event.object);
    case WatchEvent::Type::kBookmark:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace swarm::kube
