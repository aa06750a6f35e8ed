// The objects of one resource as they were last seen.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/client.h"
#include "operator/kube/object.h"

namespace swarm::kube {

/// What became of one object. `before` is null if it is new, `after` if it is gone; with both, they
/// may be two objects of one name (their UIDs differ).
struct Change {
  ObjectName name;
  Object before;
  Object after;
};

/// Thread-safe. What is read here may be behind the server, and is ahead of nothing.
class Store {
 public:
  /// `index_label`: the label that ByLabel asks for; empty: none.
  explicit Store(std::string index_label) : index_label_(std::move(index_label)) {}

  /// Null if there is none.
  Object Get(const ObjectName& name) const;
  /// Sorted by name; an empty `ns` means all.
  std::vector<Object> List(const std::string& ns = "") const;
  /// Those of `ns` whose index label has the value, sorted by name.
  std::vector<Object> ByLabel(const std::string& ns, const std::string& value) const;
  std::size_t size() const;

  /// Takes a whole list. What it lacks is gone, though nobody said so. Returns what has changed.
  std::vector<Change> Replace(const std::vector<Object>& objects);
  /// Takes one event. None if it says nothing new: it came before, or is a bookmark.
  std::optional<Change> Apply(const WatchEvent& event);

 private:
  using LabelKey = std::pair<std::string, std::string>;  // namespace, value
  std::optional<Change> Put(const Object& object);
  std::optional<Change> Remove(const ObjectName& name, const Object& last);
  void Index(const ObjectName& name, const Object& object, bool add);

  const std::string index_label_;
  mutable std::mutex mutex_;
  std::map<ObjectName, Object> objects_;
  std::map<LabelKey, std::set<ObjectName>> by_label_;
};

}  // namespace swarm::kube
