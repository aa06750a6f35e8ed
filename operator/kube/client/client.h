// The Kubernetes API as the operator uses it. Speaks JSON; knows nothing of what the objects mean.
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
  /// Empty: the newest there is (a read of etcd). "0": whatever the server has in its cache. A
  /// version: nothing older than it.
  std::string resource_version;
  int page_size = 500;
  TrimObject trim = TrimBookkeeping;
  std::stop_token stop;
};

struct ObjectList {
  std::vector<PackedObject> items;  ///< each with apiVersion and kind, which the server leaves out
  std::string resource_version;     ///< where a watch goes on

  std::vector<Object> Unpack() const;
};

/// How long a call may take with all its tries; none: as long as the client's options say.
using CallTimeout = std::optional<Duration>;

struct GetOptions {
  CallTimeout timeout;
};

struct WriteOptions {
  std::string subresource;  ///< "", "status", "scale"
  bool dry_run = false;     ///< the server does all but keep it
  CallTimeout timeout;
};

struct ApplyOptions {
  std::string subresource;
  bool dry_run = false;
  /// Take the fields that another manager owns. A controller does.
  bool force = true;
  CallTimeout timeout;
};

enum class PatchType {
  kJson,   ///< RFC 6902, an array of operations
  kMerge,  ///< RFC 7396; lists are replaced whole, so put metadata.resourceVersion into the patch
};

enum class Propagation { kBackground, kForeground, kOrphan };

struct DeleteOptions {
  /// Delete this one and not another of the same name (409: kAborted). Empty: any.
  std::string uid;
  std::string resource_version;
  std::optional<int> grace_seconds;  ///< none: the object's own
  Propagation propagation = Propagation::kBackground;
  bool dry_run = false;
};

struct WatchOptions {
  std::string ns;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  std::chrono::seconds timeout{300};  ///< the server ends the watch after this, so that it is
                                      ///< authorized anew
  /// The longest silence. Servers send a bookmark a minute.
  Duration idle_timeout = std::chrono::seconds(150);
  std::size_t frame_bytes_max = std::size_t{32} << 20;
  TrimObject trim = TrimBookkeeping;
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Object object;  ///< a bookmark has little more than a version
  std::string resource_version;
};

/// Why a watch is over.
struct WatchEnd {
  enum class Kind {
    kClosed,   ///< by the server, in order
    kExpired,  ///< the version is no longer served: 410 as HTTP status, as frame, or as plain body
    kRefused,  ///< another HTTP status, or another Status as frame or body
    kBroken,   ///< no connection, cut, silent, over a limit, or not what a watch looks like
    kStopped,  ///< `stop`
  };
  Kind kind = Kind::kClosed;
  Status status;  ///< ok if kClosed
  int code = 0;   ///< of kRefused
  std::optional<Duration> retry_after;
};

/// Thread-safe. Calls block until there is an answer, a deadline, or the client is stopped
/// (kCancelled).
///
/// Errors: as ToStatus of api_error.h says; kUnavailable, kDeadlineExceeded and kDataLoss (an
/// answer that is no JSON) from the way there. What may pass (429, 5xx, a broken connection) has
/// been tried again already, as often as it is reasonable. A write that ends with kUnavailable,
/// kDeadlineExceeded or kDataLoss may have been carried out, or be carried out twice: names
/// and resource versions make that harmless.
class Client {
 public:
  virtual ~Client() = default;

  virtual Result<Object> Get(const Resource& resource, const ObjectName& name,
                             const GetOptions& options = {}) = 0;

  /// All pages. A page that cannot be had is an error: a failed list is never a short one.
  virtual Result<ObjectList> List(const Resource& resource, const ListOptions& options) = 0;

  /// kAlreadyExists if the name is taken, perhaps by an earlier try of ours.
  virtual Result<Object> Create(const Resource& resource, const nlohmann::json& object,
                                const WriteOptions& options = {}) = 0;

  /// PUT. With metadata.resourceVersion in `object`, kAborted if it has been changed since.
  virtual Result<Object> Update(const Resource& resource, const nlohmann::json& object,
                                const WriteOptions& options = {}) = 0;

  /// Server-side apply under this client's field manager: creates or changes, and owns just the
  /// fields that `object` has.
  virtual Result<Object> Apply(const Resource& resource, const nlohmann::json& object,
                               const ApplyOptions& options = {}) = 0;

  virtual Result<Object> Patch(const Resource& resource, const ObjectName& name, PatchType type,
                               const nlohmann::json& patch, const WriteOptions& options = {}) = 0;

  /// Ok too if there is none.
  virtual Status Delete(const Resource& resource, const ObjectName& name,
                        const DeleteOptions& options = {}) = 0;

  /// Calls `on_event` on this thread for each event, until the watch ends. Does not begin anew.
  virtual WatchEnd Watch(const Resource& resource, const WatchOptions& options,
                         const std::function<void(const WatchEvent&)>& on_event,
                         std::stop_token stop) = 0;
};

}  // namespace swarm::kube
