#include "operator/kube/client/rest_client.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "operator/kube/client/caller.h"
#include "operator/kube/client/frames.h"

namespace swarm::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kErrorBytesMax = std::size_t{1} << 20;

// Writes also strings with invalid UTF-8: they come from users, and must not throw.
std::string TextOf(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A server that cannot leave out the rest sends it.
constexpr const char* kMetadataOnly =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

std::string Describe(const HttpRequest& request) {
  return request.method + " " + request.target.substr(0, request.target.find('?'));
}

WatchEnd Ended(WatchEnd::Kind kind, Status status) { return {kind, std::move(status), 0, {}}; }

WatchEnd EndedBy(const ApiError& error, const std::string& what) {
  WatchEnd end = Ended(error.IsExpired() ? WatchEnd::Kind::kExpired : WatchEnd::Kind::kRefused,
                       ToStatus(error, what));
  end.code = error.code;
  end.retry_after = error.retry_after;
  return end;
}

// Reads one watch: turns bytes into events until the watch ends.
class WatchReader {
 public:
  WatchReader(std::string what, const WatchOptions& options,
              const std::function<void(const WatchEvent&)>& on_event)
      : what_(std::move(what)),
        options_(options),
        on_event_(on_event),
        framer_(options.frame_bytes_max) {}

  bool OnHead(const HttpHead& head) {
    head_ = head;
    return true;
  }

  bool OnBytes(std::string_view bytes) {
    if (head_.status != 200) {
      refusal_.append(bytes.substr(0, kErrorBytesMax - refusal_.size()));
      return refusal_.size() < kErrorBytesMax;
    }
    std::vector<std::string> frames;
    const Status fed = framer_.Feed(bytes, frames);
    for (const std::string& frame : frames) {
      if (!OnFrame(frame)) return false;
    }
    if (!fed.ok()) end_ = Ended(WatchEnd::Kind::kBroken, fed.WithContext(what_));
    return fed.ok();
  }

  WatchEnd OnEnd(const Status& stream) {
    if (end_) return *end_;
    if (stream.code() == StatusCode::kCancelled) return Ended(WatchEnd::Kind::kStopped, stream);
    if (!stream.ok()) return Ended(WatchEnd::Kind::kBroken, stream.WithContext(what_));
    if (const auto error = ErrorIn(head_, refusal_)) return EndedBy(*error, what_);
    if (framer_.in_frame()) {
      return Ended(WatchEnd::Kind::kBroken, Unavailable(what_ + ": cut within a frame"));
    }
    return Ended(WatchEnd::Kind::kClosed, Status());
  }

 private:
  bool OnFrame(const std::string& text) {
    const WatchFrame frame = ParseWatchFrame(text, options_.trim);
    if (frame.event) {
      on_event_(*frame.event);
      return true;
    }
    end_ = frame.error ? EndedBy(*frame.error, what_)
                       : Ended(WatchEnd::Kind::kBroken, frame.problem.WithContext(what_));
    return false;
  }

  const std::string what_;
  const WatchOptions& options_;
  const std::function<void(const WatchEvent&)>& on_event_;
  JsonFramer framer_;
  HttpHead head_;
  std::string refusal_;
  std::optional<WatchEnd> end_;
};

class RestClient final : public Client {
 public:
  RestClient(std::shared_ptr<HttpTransport> transport, std::shared_ptr<Credentials> credentials,
             const RestClientOptions& options, Timing& timing, ClientMetrics* metrics)
      : caller_(std::move(transport), std::move(credentials), options, timing, metrics),
        field_manager_(options.field_manager) {}

  Result<Object> Get(const Resource& resource, const ObjectName& name,
                     const GetOptions& options) override {
    Call call{"get", {"GET", ObjectPath(resource, name)}};
    call.timeout = options.timeout;
    return ForObject(std::move(call));
  }

  Result<ObjectList> List(const Resource& resource, const ListOptions& options) override {
    bool token_expired = false;
    auto list = ListPages(resource, options, options.page_size, token_expired);
    // The rest of the list is no longer available, so list everything again, in one page.
    return token_expired ? ListPages(resource, options, /*page_size=*/0, token_expired) : list;
  }

  Result<Object> Create(const Resource& resource, const json& object,
                        const WriteOptions& options) override {
    return Write("create", "POST", CollectionPath(resource, NameOf(object).ns), object, options);
  }

  Result<Object> Update(const Resource& resource, const json& object,
                        const WriteOptions& options) override {
    return Write("update", "PUT", ObjectPath(resource, NameOf(object), options.subresource), object,
                 options);
  }

  Result<Object> Apply(const Resource& resource, const json& object,
                       const ApplyOptions& options) override {
    const std::string path = ObjectPath(resource, NameOf(object), options.subresource);
    Call call{"apply",
              {"PATCH",
               WithQuery(path, {{"fieldManager", field_manager_},
                                {"force", options.force ? "true" : ""},
                                {"dryRun", options.dry_run ? "All" : ""}}),
               // JSON is valid YAML.
               {{"content-type", "application/apply-patch+yaml"}},
               TextOf(object)}};
    call.timeout = options.timeout;
    return ForObject(std::move(call));
  }

  Result<Object> Patch(const Resource& resource, const ObjectName& name, PatchType type,
                       const json& patch, const WriteOptions& options) override {
    const bool merge = type == PatchType::kMerge;
    Call call{
        "patch",
        {"PATCH",
         WithWriteQuery(ObjectPath(resource, name, options.subresource), options),
         {{"content-type", merge ? "application/merge-patch+json" : "application/json-patch+json"}},
         TextOf(patch)}};
    call.idempotent = merge;  // a JSON patch may append
    call.timeout = options.timeout;
    return ForObject(std::move(call));
  }

  Status Delete(const Resource& resource, const ObjectName& name,
                const DeleteOptions& options) override {
    Call call{"delete",
              {"DELETE",
               ObjectPath(resource, name),
               {{"content-type", "application/json"}},
               TextOf(DeleteBody(options))}};
    const Status status = ForObject(std::move(call)).status();
    return status.code() == StatusCode::kNotFound ? Status() : status;
  }

  WatchEnd Watch(const Resource& resource, const WatchOptions& options,
                 const std::function<void(const WatchEvent&)>& on_event,
                 std::stop_token stop) override {
    Call call{"watch",
              {"GET", WithQuery(CollectionPath(resource, options.ns),
                                {{"watch", "true"},
                                 {"allowWatchBookmarks", "true"},
                                 {"resourceVersion", options.resource_version},
                                 {"timeoutSeconds", std::to_string(options.timeout.count())},
                                 {"labelSelector", options.label_selector},
                                 {"fieldSelector", options.field_selector}})}};
    call.stop = std::move(stop);
    WatchReader reader("watch of " + CollectionPath(resource, options.ns), options, on_event);
    StreamLimits limits;
    limits.head_timeout = caller_.options().request_timeout;
    limits.idle_timeout = options.idle_timeout;
    const StreamSink sink{[&](const HttpHead& head) { return reader.OnHead(head); },
                          [&](std::string_view bytes) { return reader.OnBytes(bytes); }};
    return reader.OnEnd(caller_.Stream(call, limits, sink));
  }

 private:
  static json DeleteBody(const DeleteOptions& options) {
    json body{{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
    switch (options.propagation) {
      case Propagation::kBackground:
        body["propagationPolicy"] = "Background";
        break;
      case Propagation::kForeground:
        body["propagationPolicy"] = "Foreground";
        break;
      case Propagation::kOrphan:
        body["propagationPolicy"] = "Orphan";
        break;
    }
    if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
    if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
    if (!options.resource_version.empty()) {
      body["preconditions"]["resourceVersion"] = options.resource_version;
    }
    if (options.dry_run) body["dryRun"] = {"All"};
    return body;
  }

  std::string WithWriteQuery(const std::string& path, const WriteOptions& options) const {
    return WithQuery(path,
                     {{"fieldManager", field_manager_},
                      {"dryRun", options.dry_run ? "All" : ""},
                      {"fieldValidation", options.dry_run || options.strict ? "Strict" : ""}});
  }

  Result<Object> Write(const std::string& verb, const std::string& method, const std::string& path,
                       const json& object, const WriteOptions& options) {
    Call call{verb,
              {method,
               WithWriteQuery(path, options),
               {{"content-type", "application/json"}},
               TextOf(object)}};
    if (options.metadata_only) call.request.headers["accept"] = kMetadataOnly;
    call.idempotent = method == "PUT";
    call.timeout = options.timeout;
    return ForObject(std::move(call));
  }

  Result<Object> ForObject(Call call) {
    const std::string what = Describe(call.request);
    ASSIGN_OR_RETURN(const HttpResponse answer, ForAnswer(std::move(call)));
    json object = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return DataLoss(what + ": the answer is no JSON object");
    return std::make_shared<const json>(std::move(object));
  }

  // Returns an answer of 2xx, or the error.
  Result<HttpResponse> ForAnswer(Call call) {
    const std::string what = Describe(call.request);
    auto answer = caller_.Send(std::move(call));
    if (!answer.ok()) return answer.status().WithContext(what);
    if (const auto error = ErrorIn(answer->head, answer->body)) return ToStatus(*error, what);
    return answer;
  }

  Result<ObjectList> ListPages(const Resource& resource, const ListOptions& options, int page_size,
                               bool& token_expired) {
    const std::string path = CollectionPath(resource, options.ns);
    ObjectList list;
    std::string next;
    do {
      auto page = ListPage(path, options, page_size, next);
      token_expired = !next.empty() && page.status().code() == StatusCode::kOutOfRange;
      if (!page.ok()) return page.status();
      std::move(page->items.begin(), page->items.end(), std::back_inserter(list.items));
      list.resource_version = page->resource_version;
      next = page->next;
    } while (!next.empty());
    return list;
  }

  Result<kube::ListPage> ListPage(const std::string& path, const ListOptions& options,
                                  int page_size, const std::string& next) {
    const std::string limit = page_size > 0 ? std::to_string(page_size) : "";
    // A continue token contains the version. Servers refuse both together.
    const std::string version = next.empty() ? options.resource_version : "";
    // Without it, a version with a limit means exactly this version. After an expired watch, the
    // list would return the old state, and the next watch would expire again.
    const std::string match = version.empty() ? "" : "NotOlderThan";
    Call call{"list",
              {"GET", WithQuery(path, {{"limit", limit},
                                       {"continue", next},
                                       {"resourceVersion", version},
                                       {"resourceVersionMatch", match},
                                       {"labelSelector", options.label_selector},
                                       {"fieldSelector", options.field_selector}})}};
    call.stop = options.stop;
    ASSIGN_OR_RETURN(const HttpResponse answer, ForAnswer(std::move(call)));
    auto page = ParseListPage(answer.body, options.trim);
    if (!page.ok()) return page.status().WithContext("GET " + path);
    return page;
  }

  Caller caller_;
  const std::string field_manager_;
};

}  // namespace

std::vector<Object> ObjectList::Unpack() const {
  std::vector<Object> objects;
  for (const PackedObject& item : items) objects.push_back(item.Unpack());
  return objects;
}

std::unique_ptr<Client> MakeRestClient(std::shared_ptr<HttpTransport> transport,
                                       std::shared_ptr<Credentials> credentials,
                                       const RestClientOptions& options, Timing& timing,
                                       ClientMetrics* metrics) {
  return std::make_unique<RestClient>(std::move(transport), std::move(credentials), options, timing,
                                      metrics);
}

}  // namespace swarm::kube
