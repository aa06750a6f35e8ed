#include "planner/short_pipeline.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

namespace swarm::planner {
namespace {

/// Microbatches that are played to measure the rate, at least.
constexpr std::uint64_t kPlayed = 48;

class Player {
 public:
  Player(const std::vector<ShortStage>& stages, std::uint64_t in_flight) : stages_(stages) {
    // So many equal pipelines beside each other; one is played.
    for (const ShortStage& stage : stages) {
      pipelines_ = pipelines_ == 0 ? stage.replicas : std::min(pipelines_, stage.replicas);
    }
    for (const ShortStage& stage : stages) {
      const double share = static_cast<double>(stage.replicas) / static_cast<double>(pipelines_);
      servers_.push_back(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share + 0.5)));
      // What the rounding changes, the seconds balance.
      scale_.push_back(static_cast<double>(servers_.back()) / share);
    }
    idle_ = servers_;
    forwards_.resize(stages.size());
    backwards_.resize(stages.size());
    for (auto* each : {&free_, &back_free_, &up_free_, &down_free_}) each->resize(stages.size(), 0);
    room_ = in_flight;
  }

  double Rate() {
    const std::uint64_t warm = 2 * room_, total = warm + std::max(kPlayed, 4 * room_);
    double began = 0;
    while (issued_ < room_) Issue(0);
    while (done_ < total) {
      const Event event = events_.top();
      events_.pop();
      const std::uint64_t before = done_;
      On(event);
      if (before < warm && done_ >= warm) began = event.time;
      now_ = event.time;
    }
    return static_cast<double>(pipelines_ * (total - warm)) / (now_ - began);
  }

 private:
  struct Event {
    double time = 0;
    std::uint64_t number = 0;  // orders events of a time
    std::uint64_t microbatch = 0;
    std::uint32_t stage = 0;
    bool backward = false;
    bool finished = false;  // else: it has arrived
    bool operator<(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };

  void At(double time, std::size_t stage, bool backward, std::uint64_t microbatch, bool finished) {
    events_.push(
        {time, numbers_++, microbatch, static_cast<std::uint32_t>(stage), backward, finished});
  }
  void Issue(double time) { At(time, 0, false, issued_++, false); }

  void On(const Event& event) {
    if (event.finished) {
      ++idle_[event.stage];
      Leave(event);
    } else {
      (event.backward ? backwards_ : forwards_)[event.stage].push(event.microbatch);
    }
    Begin(event.stage, event.time);
  }

  void Leave(const Event& event) {
    const std::size_t s = event.stage;
    const ShortStage& stage = stages_[s];
    if (!event.backward && s + 1 == stages_.size()) {
      return At(event.time, s, true, event.microbatch, false);
    }
    if (event.backward && s == 0) {
      ++done_;
      return Issue(event.time);
    }
    const std::size_t to = event.backward ? s - 1 : s + 1;
    const double sent = event.backward ? stage.back_transfer : stage.transfer;
    const double line = event.backward ? stage.back_line : stage.line;
    const double way = event.backward ? stage.back_way : stage.way;
    double& connection = (event.backward ? back_free_ : free_)[s];
    const double begin = std::max({event.time, connection, up_free_[s], down_free_[to]});
    connection = begin + sent / static_cast<double>(servers_[s]);
    up_free_[s] = begin + line / static_cast<double>(servers_[s]);
    down_free_[to] = begin + line / static_cast<double>(servers_[to]);
    At(begin + sent + way, to, event.backward, event.microbatch, false);
  }

  void Begin(std::size_t s, double time) {
    while (idle_[s] > 0 && !(forwards_[s].empty() && backwards_[s].empty())) {
      const bool backward = !backwards_[s].empty();
      Waiting& waiting = (backward ? backwards_ : forwards_)[s];
      const std::uint64_t microbatch = waiting.top();
      waiting.pop();
      --idle_[s];
      const double seconds = backward ? stages_[s].backward : stages_[s].forward;
      At(time + seconds * scale_[s], s, backward, microbatch, true);
    }
  }

  /// Microbatches, the first one first.
  using Waiting = std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>>;

  const std::vector<ShortStage>& stages_;
  std::uint64_t pipelines_ = 0, room_ = 1;
  std::vector<std::uint64_t> servers_, idle_;
  std::vector<double> scale_;
  std::vector<Waiting> forwards_, backwards_;  // that wait for a device of a stage
  std::vector<double> free_, back_free_;       // connections
  std::vector<double> up_free_, down_free_;    // lines
  std::priority_queue<Event> events_;
  std::uint64_t issued_ = 0, done_ = 0, numbers_ = 0;
  double now_ = 0;
};

}  // namespace

double ShortPipelineRate(const std::vector<ShortStage>& stages, std::uint64_t in_flight) {
  return Player(stages, std::max<std::uint64_t>(1, in_flight)).Rate();
}

}  // namespace swarm::planner
