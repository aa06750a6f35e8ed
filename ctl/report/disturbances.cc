#include "ctl/report/disturbances.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/enum_names.h"
#include "worker/protocol/coordinator/event_kind.h"

namespace swarm::ctl {
namespace {

using protocol::EventKind;

/// Faults so few steps apart are one incident; so many steps behind the last may be slower, too.
constexpr std::uint64_t kApart = 2;

EventClass ClassOfFault(const FaultRow& fault) {
  if (!fault.error.empty() || fault.over) return EventClass::kOther;
  return fault.text.starts_with("join") ? EventClass::kRoster : EventClass::kFault;
}

/// The number behind the last `word` in a text: "at version 12".
std::optional<std::uint64_t> NumberBehind(const std::string& text, const std::string& word) {
  const std::size_t at = text.rfind(word);
  if (at == text.npos) return std::nullopt;
  std::uint64_t number = 0;
  const char* const begin = text.data() + at + word.size();
  const auto read = std::from_chars(begin, text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

/// A moment at which a trainer began to compute the step of this number.
struct Anchor {
  double time = 0;
  std::uint64_t step = 0;
};

std::vector<Anchor> FindAnchors(const RunRecord& record) {
  std::vector<Anchor> anchors;
  for (const EventRow& event : record.events) {
    const auto kind = FindEnum<EventKind>(event.kind);
    if (kind != EventKind::kTrainingStarted && kind != EventKind::kTookOver) continue;
    if (const auto step = NumberBehind(event.text, "version ")) {
      anchors.push_back({event.time, *step});
    }
  }
  return anchors;
}

/// The steps in time. steps.jsonl has their durations, and only events have times of day: the
/// steps follow one another from an anchor on.
class Timeline {
 public:
  Timeline(const RunRecord& record, const std::vector<Anchor>& anchors) {
    std::map<std::uint64_t, double> begins;  // the last anchor of a step counts
    for (const Anchor& anchor : anchors) begins[anchor.step] = anchor.time;
    std::optional<double> now;
    for (const StepRow& row : record.steps) {
      const auto anchor = begins.find(row.step);
      if (anchor != begins.end()) {
        if (now && anchor->second > *now) pauses_[row.step] = anchor->second - *now;
        now = anchor->second;
      }
      if (now && std::isfinite(row.seconds)) *now += row.seconds;
      if (now) ends_.push_back({*now, row.step});
    }
  }

  /// The step that was computed then, one behind the last if it was later.
  std::optional<std::uint64_t> StepAt(double time) const {
    if (ends_.empty()) return std::nullopt;
    const auto found =
        std::lower_bound(ends_.begin(), ends_.end(), time,
                         [](const Anchor& end, double wanted) { return end.time < wanted; });
    return found == ends_.end() ? ends_.back().step + 1 : found->step;
  }
  /// Seconds before the step in which no trainer worked, or worked for nothing.
  double PauseBefore(std::uint64_t step) const {
    const auto found = pauses_.find(step);
    return found == pauses_.end() ? 0 : found->second;
  }
  std::optional<double> end() const {
    return ends_.empty() ? std::nullopt : std::optional(ends_.back().time);
  }

 private:
  std::vector<Anchor> ends_;
  std::map<std::uint64_t, double> pauses_;
};

std::vector<PlacedEvent> PlaceEvents(const RunRecord& record, const Timeline& timeline) {
  struct Timed {
    double time;
    PlacedEvent event;
  };
  std::vector<Timed> timed;
  for (const EventRow& event : record.events) {
    PlacedEvent placed{.what = ClassOf(event.kind),
                       .kind = event.kind,
                       .text = event.text,
                       .seconds = {},
                       .step = event.version,
                       .worker = event.worker,
                       .stage = event.stage,
                       .cause = event.cause,
                       .lasted = event.seconds};
    if (placed.what == EventClass::kCheckpoint) placed.step = NumberBehind(event.text, "version ");
    if (!placed.step) placed.step = timeline.StepAt(event.time);
    timed.push_back({event.time, std::move(placed)});
  }
  for (const FaultRow& fault : record.faults) {
    timed.push_back({fault.time,
                     {.what = ClassOfFault(fault),
                      .kind = "Injected",
                      .text = fault.text + (fault.error.empty() ? "" : ": " + fault.error),
                      .seconds = {},
                      .step = fault.step}});
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Timed& a, const Timed& b) { return a.time < b.time; });
  std::vector<PlacedEvent> events;
  for (Timed& each : timed) {
    each.event.seconds = each.time - timed.front().time;
    events.push_back(std::move(each.event));
  }
  return events;
}

bool IsOfIncident(const PlacedEvent& event) {
  return event.step && (event.what == EventClass::kFault || event.what == EventClass::kTakeover);
}

std::vector<Incident> GroupIncidents(const std::vector<PlacedEvent>& events) {
  std::vector<PlacedEvent> faults;
  std::copy_if(events.begin(), events.end(), std::back_inserter(faults), IsOfIncident);
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return *a.step < *b.step; });
  std::vector<Incident> incidents;
  for (PlacedEvent& fault : faults) {
    const std::uint64_t step = *fault.step;
    if (incidents.empty() || step > incidents.back().last_step) {
      incidents.push_back({.events = {}, .first_step = step, .last_step = step});
    }
    incidents.back().last_step = step + kApart;
    incidents.back().events.push_back(std::move(fault));
  }
  return incidents;
}

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place),
                   values.end());
  return values[place];
}

bool Covers(const Incident& incident, std::uint64_t step) {
  return incident.first_step <= step && step <= incident.last_step;
}

/// Times of steps that no incident covers, without the first: it has the start of the pipeline.
std::vector<double> UndisturbedSeconds(const RunRecord& record,
                                       const std::vector<Incident>& incidents) {
  std::vector<double> seconds;
  auto incident = incidents.begin();
  for (std::size_t i = 1; i < record.steps.size(); ++i) {
    const StepRow& row = record.steps[i];
    while (incident != incidents.end() && incident->last_step < row.step) ++incident;
    const bool disturbed = incident != incidents.end() && Covers(*incident, row.step);
    if (!disturbed && std::isfinite(row.seconds)) seconds.push_back(row.seconds);
  }
  return seconds;
}

/// Adds what the incident's steps took beyond the usual; steps within the usual spread add nothing.
void Cost(const RunRecord& record, const Timeline& timeline, const Disturbances& usual,
          Incident* incident) {
  const auto first =
      std::lower_bound(record.steps.begin(), record.steps.end(), incident->first_step,
                       [](const StepRow& row, std::uint64_t step) { return row.step < step; });
  if (first == record.steps.end() || usual.usual_seconds <= 0) return;
  double lost = 0;
  for (auto row = first; row != record.steps.end() && row->step <= incident->last_step; ++row) {
    lost += timeline.PauseBefore(row->step);
    if (row->seconds > usual.slow_seconds) lost += row->seconds - usual.usual_seconds;
  }
  incident->lost_seconds = lost;
  incident->lost_tokens = lost / usual.usual_seconds * static_cast<double>(first->tokens);
}

}  // namespace

EventClass ClassOf(const std::string& kind) {
  const auto known = FindEnum<EventKind>(kind);
  if (!known) return EventClass::kOther;
  switch (*known) {
    case EventKind::kTookOver:
    case EventKind::kRolledBack:
      return EventClass::kTakeover;
    case EventKind::kWorkerJoining:
    case EventKind::kWorkerJoined:
    case EventKind::kWorkerMoves:
    case EventKind::kWorkerLeaving:
    case EventKind::kWorkerLeft:
      return EventClass::kRoster;
    case EventKind::kCheckpointWritten:
      return EventClass::kCheckpoint;
    case EventKind::kWorkerLost:
    case EventKind::kWorkerRefused:
    case EventKind::kPairBroken:
    case EventKind::kMicrobatchStuck:
    case EventKind::kReduceRefused:
    case EventKind::kReduceDiffers:
    case EventKind::kStepRepeated:
    case EventKind::kAuditDiffers:
    case EventKind::kStepSkipped:
    case EventKind::kStageLost:
    case EventKind::kRollbackDelayed:
    case EventKind::kCheckpointFailed:
    case EventKind::kCheckpointDamaged:
    case EventKind::kCheckpointNotCopied:
    case EventKind::kFailed:
      return EventClass::kFault;
    case EventKind::kTrainingStarted:
    case EventKind::kRoutesPlanned:
    case EventKind::kRegionsSpread:
    case EventKind::kScaleLowered:
    case EventKind::kCheckpointDelayed:
    case EventKind::kCheckpointCopied:
    case EventKind::kStopping:
    case EventKind::kSucceeded:
      return EventClass::kOther;
  }
  return EventClass::kOther;
}

Disturbances FindDisturbances(const RunRecord& record) {
  Disturbances found;
  const Timeline timeline(record, FindAnchors(record));
  found.events = PlaceEvents(record, timeline);
  found.incidents = GroupIncidents(found.events);
  const std::vector<double> undisturbed = UndisturbedSeconds(record, found.incidents);
  found.usual_seconds = Quantile(undisturbed, 0.5);
  found.slow_seconds = Quantile(undisturbed, 0.9);
  for (Incident& incident : found.incidents) {
    Cost(record, timeline, found, &incident);
    found.lost_seconds += incident.lost_seconds.value_or(0);
    found.lost_tokens += incident.lost_tokens;
  }
  // A single event, such as a validation of one process, spans no time.
  if (timeline.end() && !record.events.empty()) {
    const double last = std::max(*timeline.end(), record.events.back().time);
    found.wall_seconds = last - record.events.front().time;
  }
  return found;
}

}  // namespace swarm::ctl
