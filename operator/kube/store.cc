#include "operator/kube/store.h"

#include <nlohmann/json.hpp>

namespace swarm::kube {

Object Store::Get(const ObjectName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  return found == objects_.end() ? nullptr : found->second;
}

std::vector<Object> Store::List(const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> listed;
  for (auto at = ns.empty() ? objects_.begin() : objects_.lower_bound({ns, ""});
       at != objects_.end() && (ns.empty() || at->first.ns == ns); ++at) {
    listed.push_back(at->second);
  }
  return listed;
}

std::vector<Object> Store::ByLabel(const std::string& ns, const std::string& value) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> found;
  const auto names = by_label_.find({ns, value});
  if (names == by_label_.end()) return found;
  for (const ObjectName& name : names->second) found.push_back(objects_.at(name));
  return found;
}

std::size_t Store::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

void Store::Index(const ObjectName& name, const Object& object, bool add) {
  if (index_label_.empty()) return;
  const std::string value = LabelOf(*object, index_label_);
  if (value.empty()) return;
  auto& names = by_label_[{name.ns, value}];
  if (add) {
    names.insert(name);
  } else {
    names.erase(name);
  }
  if (names.empty()) by_label_.erase({name.ns, value});
}

std::optional<Change> Store::Put(const Object& object) {
  const ObjectName name = NameOf(*object);
  Object& place = objects_[name];
  const Object before = place;
  if (before) {
    // Equality is all that may be asked of versions.
    if (ResourceVersionOf(*before) == ResourceVersionOf(*object) &&
        UidOf(*before) == UidOf(*object)) {
      return std::nullopt;
    }
    Index(name, before, /*add=*/false);
  }
  place = object;
  Index(name, object, /*add=*/true);
  return Change{name, before, object};
}

std::optional<Change> Store::Remove(const ObjectName& name, const Object& last) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) return std::nullopt;
  Index(name, found->second, /*add=*/false);
  // The last state says more than the one we had.
  Change change{name, last ? last : found->second, nullptr};
  objects_.erase(found);
  return change;
}

std::vector<Change> Store::Replace(const std::vector<Object>& objects) {
  const std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  std::set<ObjectName> listed;
  for (const Object& object : objects) listed.insert(NameOf(*object));
  std::vector<ObjectName> gone;
  for (const auto& [name, object] : objects_) {
    if (!listed.contains(name)) gone.push_back(name);
  }
  for (const ObjectName& name : gone) changes.push_back(*Remove(name, nullptr));
  for (const Object& object : objects) {
    if (auto change = Put(object)) changes.push_back(*std::move(change));
  }
  return changes;
}

std::optional<Change> Store::Apply(const WatchEvent& event) {
  const std::lock_guard lock(mutex_);
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
