// The Kubernetes API as the operator uses it. Objects are JSON; the client does not interpret them.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "operator/kube/client/api_error.h"
#include "operator/kube/object/object.h"
#include "operator/kube/object/resource.h"

namespace swarm::kube {

struct ListOptions {
  std::string ns;  ///< empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  /// Empty: the newest state (a read of etcd). "0": any state in the server's cache. A version:
  /// this state or a newer one.
  std::string resource_version;
  int page_size = 500;
  TrimObject trim = TrimBookkeeping;
  std::stop_token stop;
};

struct ObjectList {
  std::vector<PackedObject> items;  ///< with apiVersion and kind, which the server omits
  std::string resource_version;     ///< where a watch continues

  std::vector<Object> Unpack() const;
};

/// How long a call may take with all its tries. None: as the client's options say.
using CallTimeout = std::optional<Duration>;

struct GetOptions {
  CallTimeout timeout;
};

struct WriteOptions {
  std::string subresource;  ///< "", "status", "scale"
  /// The server validates the request, unknown fields included, and stores nothing.
  bool dry_run = false;
  /// The answer has the object's metadata and no more, which costs both ends less.
  bool metadata_only = false;
  /// The server refuses fields that it does not know, instead of dropping them.
  bool strict = false;
  CallTimeout timeout;
};

struct ApplyOptions {
  std::string subresource;
  bool dry_run = false;
  /// Take over fields that another manager owns, as a controller should.
  bool force = true;
  CallTimeout timeout;
};

enum class PatchType {
  kJson,   ///< RFC 6902, an array of operations
  kMerge,  ///< RFC 7396; replaces whole lists, so put metadata.resourceVersion into the patch
};

enum class Propagation { kBackground, kForeground, kOrphan };

struct DeleteOptions {
  /// The UID of the object to delete. If another object has the name: kAborted. Empty: any UID.
  std::string uid;
  std::string resource_version;
  std::optional<int> grace_seconds;  ///< none: as the object says
  Propagation propagation = Propagation::kBackground;
  bool dry_run = false;
};

struct WatchOptions {
  std::string ns;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  std::chrono::seconds timeout{300};  ///< the server ends the watch after this, so that the next
                                      ///< one is authorized again
  /// The longest silence. Servers send a bookmark every minute.
  Duration idle_timeout = std::chrono::seconds(150);
  std::size_t frame_bytes_max = std::size_t{32} << 20;
  TrimObject trim = TrimBookkeeping;
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Object object;  ///< of a bookmark: little more than the version
  std::string resource_version;
};

/// Why a watch is over.
struct WatchEnd {
  enum class Kind {
    kClosed,   ///< the server ended it in order
    kExpired,  ///< the server no longer serves the version: 410 as HTTP status, frame or body
    kRefused,  ///< another HTTP error, or another Status as frame or body
    kBroken,   ///< no connection, cut, silent, over a limit, or malformed
    kStopped,  ///< `stop` was requested
  };
  Kind kind = Kind::kClosed;
  Status status;  ///< ok if kClosed
  int code = 0;   ///< of kRefused
  std::optional<Duration> retry_after;
};

/// Thread-safe. A call blocks until there is an answer, its deadline passes, or the client is
/// stopped (kCancelled).
///
/// An interface, because the tests of the leader election and of events need servers that fail at
/// chosen moments (testing/fake_client.h).
///
/// Errors: those of ToStatus (api_error.h), and kUnavailable, kDeadlineExceeded or kDataLoss (the
/// answer is not JSON) from the connection. Temporary errors (429, 5xx, a broken connection) have
/// been retried already. A write that ends with kUnavailable, kDeadlineExceeded or kDataLoss may
/// have been carried out once or twice: use names and resource versions that make this harmless.
class Client {
 public:
  virtual ~Client() = default;

  virtual Result<Object> Get(const Resource& resource, const ObjectName& name,
                             const GetOptions& options = {}) = 0;

  /// All pages. If a page cannot be read, the call fails: it never returns a part of a list.
  virtual Result<ObjectList> List(const Resource& resource, const ListOptions& options) = 0;

  /// kAlreadyExists: the name is taken, maybe by an earlier try of this call.
  virtual Result<Object> Create(const Resource& resource, const nlohmann::json& object,
                                const WriteOptions& options = {}) = 0;

  /// PUT. kAborted: `object` has a metadata.resourceVersion, and the object has changed since.
  virtual Result<Object> Update(const Resource& resource, const nlohmann::json& object,
                                const WriteOptions& options = {}) = 0;

  /// Server-side apply under this client's field manager: creates or changes the object, and then
  /// owns exactly the fields in `object`.
  virtual Result<Object> Apply(const Resource& resource, const nlohmann::json& object,
                               const ApplyOptions& options = {}) = 0;

  virtual Result<Object> Patch(const Resource& resource, const ObjectName& name, PatchType type,
                               const nlohmann::json& patch, const WriteOptions& options = {}) = 0;

  /// Ok also if the object does not exist.
  virtual Status Delete(const Resource& resource, const ObjectName& name,
                        const DeleteOptions& options = {}) = 0;

  /// Calls `on_event` on this thread for each event, until the watch ends. Does not restart the
  /// watch.
  virtual WatchEnd Watch(const Resource& resource, const WatchOptions& options,
                         const std::function<void(const WatchEvent&)>& on_event,
                         std::stop_token stop) = 0;
};

}  // namespace swarm::kube
