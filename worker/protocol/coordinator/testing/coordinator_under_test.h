// For tests: a coordinator, a clock that the test advances, and short calls for the workers'
// messages.
//
// Workers of stage 0 are called "a1", "a2", ..., those of stage 1 "b1", and so on.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest();

  // ---- events ----

  /// Makes the coordinator with `options_`.
  void Create();
  /// Makes it with that many replicas of each stage, and all of them come and load.
  void StartTraining(std::vector<std::uint64_t> replicas);
  static Hello HelloOf(const std::string& name, std::uint64_t incarnation = 1);
  void Come(const std::string& name, std::uint64_t incarnation = 1);
  void Say(const std::string& name, const Message& message);
  /// The worker has loaded the state that its last Welcome or Rollback names.
  void Load(const std::string& name, const Digest& state = {7, 7});
  /// The connection broke.
  void Lose(const std::string& name);
  /// The worker is not heard any more, and may live.
  void FallSilent(const std::string& name);
  void Beat(const std::string& name, const Heartbeat& beat);
  /// Time passes, and is noticed.
  void Pass(Duration duration);
  void Stop();
  void Publish(Version version, const std::string& error = {});
  void BeginGeneration(std::uint64_t generation, std::uint64_t version);

  // ---- work, by the worker that has the cell now, in the step that is next to be committed, or
  // `later` steps behind it ----

  void Forward(std::uint64_t m, std::uint64_t stage);
  void Fold(std::uint64_t m, std::uint64_t stage, std::uint64_t later = 0);
  /// Folds all issued cells, and those that are issued after these folds.
  void FoldAll();
  /// Every worker that was asked for a sum, and not told to thaw it, has the sum.
  void Reduce();
  void Reduce(const std::string& name, std::uint64_t group, const Digest& digest = {1, 1},
              double squared_norm = 1);
  /// The worker has cleared what it was told to void.
  void AnswerVoids(const std::string& name);
  /// Every worker that was told of a commit has applied it.
  void Apply();
  void Apply(const std::string& name, std::uint64_t step, const Digest& state);
  /// From the first fold to the last application.
  void CompleteStep();

  // ---- orders since the last Listen ----

  void Listen() { orders_.clear(); }
  const Orders& orders() const { return orders_; }
  template <typename M>
  std::vector<M> Told(const std::string& name) const {
    std::vector<M> messages;
    for (const Order& order : orders_) {
      const auto* tell = std::get_if<order::Tell>(&order);
      if (tell == nullptr || tell->to != WorkerId(name)) continue;
      if (const M* message = std::get_if<M>(&tell->message)) messages.push_back(*message);
    }
    return messages;
  }
  template <typename M>
  std::set<std::string> WhoWasTold() const {
    std::set<std::string> names;
    for (const Order& order : orders_) {
      const auto* tell = std::get_if<order::Tell>(&order);
      if (tell != nullptr && std::holds_alternative<M>(tell->message)) names.insert(tell->to.value);
    }
    return names;
  }
  template <typename O>
  std::vector<O> All() const {
    std::vector<O> found;
    for (const Order& order : orders_) {
      if (const O* o = std::get_if<O>(&order)) found.push_back(*o);
    }
    return found;
  }
  /// Frames for which tokens are to be read.
  std::vector<protocol::Forward> Issued() const;
  bool Happened(std::string_view kind) const;
  std::optional<order::Finish> Finished() const;

  // ---- state ----

  std::uint64_t step() const { return coordinator_->Status().step.value; }
  std::string state() const { return std::string(NameOf(coordinator_->Status().state)); }
  /// Whether the microbatch was sent out.
  bool IsIssued(std::uint64_t m, std::uint64_t later = 0) const;
  /// The worker that is to fold the cell, or has folded it.
  std::string Owner(std::uint64_t m, std::uint64_t stage, std::uint64_t later = 0) const;
  TaskKey Key(std::uint64_t m, std::uint64_t stage, std::uint64_t later = 0) const;
  /// The last Reduce for which the worker was asked.
  const protocol::Reduce& Asked(const std::string& name, std::uint64_t group) const {
    return asked_.at({name, group});
  }
  Coordinator& coordinator() { return *coordinator_; }

  CoordinatorOptions options_ = WithoutStops();
  std::map<std::string, std::string> pods_;     ///< of workers, by name; the others have none
  std::map<std::string, std::string> regions_;  ///< of workers, by name; else unknown
  std::set<std::string> dialled_;               ///< workers that others can dial
  std::uint64_t boundary_bytes_ = 0;            ///< that workers report
  Timepoint now_{std::chrono::hours(1)};

 private:
  /// Pass() is one event, however long it is.
  static CoordinatorOptions WithoutStops() {
    CoordinatorOptions options;
    options.patience.stopped = std::chrono::hours(1000);
    return options;
  }
  struct Cell {
    Hop hop;
    bool folded = false;
  };
  void Keep(Orders orders);
  void Note(const protocol::Forward& frame);
  void Report(std::uint64_t m, std::uint64_t stage, std::uint64_t later, TaskReport::Event event);

  std::optional<Coordinator> coordinator_;
  Orders orders_;
  std::map<std::string, Ready> state_to_load_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Cell>> rows_;  // by (step, m)
  std::map<std::pair<std::string, std::uint64_t>, protocol::Reduce> asked_;    // by (worker, group)
  std::map<std::string, std::vector<Void>> voids_;
  std::map<std::string, std::set<std::uint64_t>> to_apply_;  // steps
};

}  // namespace swarm::protocol
