// The objects of one resource, as last seen.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/client/client.h"
#include "operator/kube/object/object.h"

namespace swarm::kube {

/// A change of one object. `before` is null if the object is new, `after` if it is gone. If both
/// are set, they may be two objects with the same name (then their UIDs differ).
struct Change {
  ObjectName name;
  Object before;
  Object after;
};

/// Called after the store has changed. Must return soon, must not throw.
using OnChange = std::function<void(const Change&)>;

/// The key of an object in an index; empty: the object is not in the index. Must not throw.
using IndexKey = std::function<std::string(const nlohmann::json& object)>;

/// Thread-safe, but only one thread may change the objects of a namespace. Its state may be older
/// than the server's.
/// Objects are stored packed, and unpacked for each call.
class Store {
 public:
  explicit Store(std::vector<IndexKey> indexes = {})
      : index_keys_(std::move(indexes)), indexes_(index_keys_.size()) {}

  /// Null: there is no such object.
  Object Get(const ObjectName& name) const;
  /// The same, for those who may know it by its identity from before; none: there is no such
  /// object.
  std::optional<PackedObject> GetPacked(const ObjectName& name) const;
  /// Sorted by name; an empty `ns` means all.
  std::vector<Object> List(const std::string& ns = "") const;
  /// The objects with this key in the index of this number, sorted by name.
  std::vector<Object> ByIndex(std::size_t index, const std::string& key) const;
  /// The same, for those who know most of them by their identity from before.
  std::vector<PackedObject> PackedByIndex(std::size_t index, const std::string& key) const;
  std::size_t size() const;

  /// Replaces the content of `ns` (empty: all of it) by a list. Objects that the list lacks are
  /// removed.
  void Replace(const std::vector<PackedObject>& objects, const OnChange& on_change,
               const std::string& ns = "");
  /// Applies one event. None: it changes nothing, because it is old or a bookmark.
  std::optional<Change> Apply(const WatchEvent& event);

 private:
  using Objects = std::map<ObjectName, PackedObject>;
  struct ByName {
    bool operator()(const Objects::value_type* one, const Objects::value_type* other) const {
      return one->first < other->first;
    }
  };
  using Members = std::set<const Objects::value_type*, ByName>;

  std::optional<Change> Put(const Object& object);
  std::optional<Change> Remove(const ObjectName& name, const Object& last);
  std::vector<ObjectName> NamesWithout(const std::set<ObjectName>& listed,
                                       const std::string& ns) const;
  void Index(const Objects::value_type& place, const Object& object, bool add);

  const std::vector<IndexKey> index_keys_;
  mutable std::mutex mutex_;
  Objects objects_;                                      // guarded, as is indexes_
  std::vector<std::map<std::string, Members>> indexes_;  // into objects_
};

}  // namespace swarm::kube
