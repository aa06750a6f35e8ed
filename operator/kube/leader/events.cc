#include "operator/kube/leader/events.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "operator/kube/timing/micro_time.h"

namespace swarm::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kNoteBytesMax = 1024;  // the API's limit
constexpr std::size_t kNameBytesMax = 253;
constexpr const char* kCombined = "(combined from similar events): ";

std::string TypeName(EventType type) { return type == EventType::kNormal ? "Normal" : "Warning"; }

// Cuts the text to this many bytes, without a part of a character at the end.
std::string CutUtf8(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

std::string Join(std::initializer_list<std::string> parts) {
  std::string joined;
  for (const std::string& part : parts) joined.append(part).push_back('\0');
  return joined;
}

std::string ObjectKey(const ObjectReference& regarding) {
  return Join({regarding.api_version, regarding.kind, regarding.name.ns, regarding.name.name,
               regarding.uid});
}

std::string ReasonKey(const EventRequest& request) {
  return Join(
      {ObjectKey(request.regarding), TypeName(request.type), request.reason, request.action});
}

// An event is in the namespace of its object, or in "default" for cluster-scoped objects.
ObjectName NewName(const ObjectReference& regarding, WallTime wall) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(wall.time_since_epoch());
  std::array<char, 24> suffix{};
  std::snprintf(suffix.data(), suffix.size(), ".%llx",
                static_cast<unsigned long long>(since.count()));
  const std::string stem = regarding.name.name.substr(0, kNameBytesMax - suffix.size());
  return {regarding.name.ns.empty() ? "default" : regarding.name.ns, stem + suffix.data()};
}

json ToJson(const ObjectReference& reference) {
  json made{{"apiVersion", reference.api_version},
            {"kind", reference.kind},
            {"name", reference.name.name},
            {"uid", reference.uid}};
  if (!reference.name.ns.empty()) made["namespace"] = reference.name.ns;
  if (!reference.resource_version.empty()) made["resourceVersion"] = reference.resource_version;
  return made;
}

std::string Text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string NewEvent(const EventRequest& request, const EventCorrelatorOptions& options,
                     const ObjectName& name, const std::string& note, WallTime wall) {
  return Text(json{{"apiVersion", "events.k8s.io/v1"},
                   {"kind", "Event"},
                   {"metadata", {{"name", name.name}, {"namespace", name.ns}}},
                   {"eventTime", MicroTime(wall)},
                   {"reportingController", options.controller},
                   {"reportingInstance", CutUtf8(options.instance, 128)},
                   {"action", request.action},
                   {"reason", request.reason},
                   {"type", TypeName(request.type)},
                   {"regarding", ToJson(request.regarding)},
                   {"note", note}});
}

}  // namespace

ObjectReference ReferenceTo(const json& object) {
  return {TextAt(object, "/apiVersion"), TextAt(object, "/kind"), NameOf(object), UidOf(object),
          ResourceVersionOf(object)};
}

template <typename Value>
void EventCorrelator::Bound(std::map<std::string, Value>& remembered) {
  if (remembered.size() <= options_.remembered_max) return;
  const auto oldest =
      std::min_element(remembered.begin(), remembered.end(),
                       [](const auto& a, const auto& b) { return a.second.last < b.second.last; });
  remembered.erase(oldest);
}

bool EventCorrelator::IsFlood(const EventRequest& request, Timepoint now) {
  Flow& flow = flows_
                   .try_emplace(ObjectKey(request.regarding),
                                Flow{TokenBucket(options_.per_second, options_.burst), now})
                   .first->second;
  flow.last = now;
  const bool flood = !flow.bucket.TryTake(now);
  Bound(flows_);
  return flood;
}

std::string EventCorrelator::NoteOf(const EventRequest& request, const std::string& key,
                                    Timepoint now) {
  Alike& alike = alike_[key];
  if (now - alike.last > options_.alike_window) alike.notes.clear();
  alike.last = now;
  std::string note = CutUtf8(request.note, kNoteBytesMax);
  const bool combined =
      static_cast<int>(alike.notes.size()) >= options_.alike_max && !alike.notes.contains(note);
  if (!combined) alike.notes.insert(note);
  Bound(alike_);
  return combined ? CutUtf8(kCombined + note, kNoteBytesMax) : note;
}

std::optional<EventWrite> EventCorrelator::On(const EventRequest& request, Timepoint now,
                                              WallTime wall) {
  if (IsFlood(request, now)) return std::nullopt;
  const std::string reason = ReasonKey(request);
  const std::string note = NoteOf(request, reason, now);
  // Combined events are one series, with any notes.
  const std::string key = Join({reason, note.starts_with(kCombined) ? kCombined : note});
  const auto found = series_.find(key);
  if (found != series_.end() && now - found->second.last <= options_.alike_window) {
    Series& series = found->second;
    ++series.count;
    series.last = now;
    return EventWrite{
        false, series.name,
        Text(json{{"series", {{"count", series.count}, {"lastObservedTime", MicroTime(wall)}}}})};
  }
  const ObjectName name = NewName(request.regarding, wall);
  series_[key] = Series{name, 1, now};
  Bound(series_);
  return EventWrite{true, name, NewEvent(request, options_, name, note, wall)};
}

void EventCorrelator::Forget(const ObjectName& name) {
  std::erase_if(series_, [&](const auto& entry) { return entry.second.name == name; });
}

EventRecorder::EventRecorder(Client& client, const EventCorrelatorOptions& options, Timing& timing,
                             std::size_t queue_max)
    : client_(client),
      timing_(timing),
      queue_max_(queue_max),
      correlator_(options),
      thread_([this](std::stop_token stop) { Run(stop); }) {}

EventRecorder::~EventRecorder() = default;

void EventRecorder::Record(const ObjectReference& regarding, EventType type,
                           const std::string& reason, const std::string& action,
                           const std::string& note) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= queue_max_) {
    ++dropped_;
    return;
  }
  queue_.push_back({regarding, type, reason, action, note});
  changed_.notify_all();
}

bool EventRecorder::Flush(Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return queue_.empty() && !sending_; });
}

void EventRecorder::Run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !queue_.empty(); }) && !stop.stop_requested()) {
    const EventRequest request = std::move(queue_.front());
    queue_.pop_front();
    sending_ = true;
    lock.unlock();
    Send(request);
    lock.lock();
    sending_ = false;
    changed_.notify_all();
  }
}

void EventRecorder::Send(const EventRequest& request) {
  // Events expire after an hour. Then the count becomes a new event.
  for (int tries = 0; tries < 2; ++tries) {
    const auto write = correlator_.On(request, timing_.Now(), timing_.WallNow());
    if (!write) {
      ++dropped_;
      return;
    }
    const json body = json::parse(write->body);
    const Status sent =
        (write->is_new ? client_.Create(resources::Events(), body)
                       : client_.Patch(resources::Events(), write->name, PatchType::kMerge, body))
            .status();
    if (sent.ok()) return;
    correlator_.Forget(write->name);
    if (write->is_new || sent.code() != StatusCode::kNotFound) {
      ++dropped_;
      LOG_WARN("cannot send the event {} about {}: {}", request.reason,
               request.regarding.name.ToString(), sent.message());
      return;
    }
  }
}

}  // namespace swarm::kube
