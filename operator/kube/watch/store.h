// The objects of one resource as they were last seen.
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

/// What became of one object. `before` is null if it is new, `after` if it is gone; with both, they
/// may be two objects of one name (their UIDs differ).
struct Change {
  ObjectName name;
  Object before;
  Object after;
};

/// Called after the store has taken the change. Must return soon, must not throw.
using OnChange = std::function<void(const Change&)>;

/// Something by which objects are found besides their name; empty: not by this. Must not throw.
using IndexKey = std::function<std::string(const nlohmann::json& object)>;

/// Thread-safe; of those that change it only one runs at a time. What is read here may be behind
/// the server, and is ahead of nothing. Objects are kept packed, and unpacked for each who asks.
class Store {
 public:
  explicit Store(std::vector<IndexKey> indexes = {})
      : index_keys_(std::move(indexes)), indexes_(index_keys_.size()) {}

  /// Null if there is none.
  Object Get(const ObjectName& name) const;
  /// Sorted by name; an empty `ns` means all.
  std::vector<Object> List(const std::string& ns = "") const;
  /// Those that have that key in the index of that number, sorted by name.
  std::vector<Object> ByIndex(std::size_t index, const std::string& key) const;
  std::size_t size() const;

  /// Takes a whole list, one object after the other. What it lacks is gone, though nobody said so.
  void Replace(const std::vector<PackedObject>& objects, const OnChange& on_change);
  /// Takes one event. None if it says nothing new: it came before, or is a bookmark.
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
  std::vector<ObjectName> NamesWithout(const std::set<ObjectName>& listed) const;
  void Index(const Objects::value_type& place, const Object& object, bool add);

  const std::vector<IndexKey> index_keys_;
  mutable std::mutex mutex_;
  Objects objects_;                                      // guarded, as the next
  std::vector<std::map<std::string, Members>> indexes_;  // into objects_
};

}  // namespace swarm::kube
