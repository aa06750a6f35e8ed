// For tests: a replica, and short calls for the messages of its trainer and its neighbours.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "worker/protocol/replica/replica.h"

namespace swarm::protocol {

/// A replica of the middle stage of three, of term 1. The fixture keeps no state but the replica.
class ReplicaTest : public testing::Test {
 protected:
  const WorkerId kBelow{"below"}, kSelf{"self"}, kAbove{"above"}, kOther{"other"};

  static ReplicaOptions DefaultOptions() {
    return {.self = {.id = WorkerId("self"), .stage = StageIndex(1)},
            .stages = 3,
            .groups = {GroupIndex(1)},
            .term = Term(1)};
  }
  void Begin(ReplicaOptions options) { replica_.emplace(std::move(options)); }
  Replica& replica() {
    if (!replica_) replica_.emplace(DefaultOptions());
    return *replica_;
  }

  /// The first action of that kind, or nothing.
  template <typename T>
  static std::optional<T> Find(const Actions& actions) {
    for (const Action& action : actions) {
      if (const T* found = std::get_if<T>(&action)) return *found;
    }
    return std::nullopt;
  }
  /// The first message of that kind to the trainer, or nothing.
  template <typename M>
  static std::optional<M> Told(const Actions& actions) {
    for (const Action& action : actions) {
      const auto* tell = std::get_if<action::Tell>(&action);
      const M* message = tell ? std::get_if<M>(&tell->message) : nullptr;
      if (message) return *message;
    }
    return std::nullopt;
  }
  static std::string Why(const Actions& actions) {
    const auto refuse = Find<action::Refuse>(actions);
    return refuse ? std::string(refuse->reason) : "accepted";
  }
  static std::optional<TaskReport::Event> Reported(const Actions& actions) {
    const auto progress = Told<Progress>(actions);
    return progress ? std::optional(progress->reports.at(0).event) : std::nullopt;
  }

  /// The frame of a microbatch that goes through all stages; `n` numbers its attempts.
  Forward Frame(std::uint64_t m, std::uint64_t n = 1, std::uint64_t step = 0) const {
    Forward frame;
    frame.key = {Generation(0), Step(step), Microbatch(m), StageIndex(1), {Term(1), n}};
    frame.version = Version(step);
    frame.hops = {
        {kBelow, {Term(1), n + 100}}, {kSelf, {Term(1), n}}, {kAbove, {Term(1), n + 200}}};
    frame.end = StageIndex(3);
    return frame;
  }
  /// The same, recomputed without contributing.
  Forward Again(std::uint64_t m, std::uint64_t n) const {
    Forward frame = Frame(m, n);
    frame.hops[1].fold = false;
    return frame;
  }
  static TaskKey At(TaskKey key, std::uint64_t stage, std::uint64_t n) {
    key.stage = StageIndex(stage);
    key.attempt.n = n;
    return key;
  }
  Actions Backward(const Forward& frame) {
    return replica().OnBackward(kAbove, {frame.key, frame.version});
  }
  /// Accepts the frame and computes its forward.
  Actions RunForward(const Forward& frame, std::uint64_t bytes = 8) {
    EXPECT_EQ(Why(replica().OnForward(kBelow, frame)), "accepted");
    return replica().OnForwardDone(frame.key, 0, {0, bytes});
  }
  /// Runs the task to the end of the backward. Returns the last actions.
  Actions Run(const Forward& frame) {
    (void)RunForward(frame);
    EXPECT_EQ(Why(Backward(frame)), "accepted");
    return replica().OnBackwardDone(frame.key, {0, 8});
  }
  void Fold(const Forward& frame) { ASSERT_TRUE(Find<action::FoldGradients>(Run(frame))); }
  std::vector<Microbatch> Folded(std::uint64_t step = 0) {
    return replica().FoldSet(Step(step)).microbatches;
  }

  static Reduce ReduceOf(std::vector<Microbatch> claims, std::uint64_t k = 1,
                         std::uint64_t step = 0) {
    return {.term = Term(1),
            .step = Step(step),
            .group = GroupIndex(1),
            .k = {Term(1), k},
            .participants = {WorkerId("self")},
            .claims = {StageIndex(1), std::move(claims)}};
  }
  static Commit CommitOf(const Digest& digest, std::uint64_t k = 1, std::uint64_t step = 0) {
    return {Term(1),
            {.step = Step(step), .groups = {{GroupIndex(1), {Term(1), k}, digest}}},
            Step(step)};
  }
  /// Reduces what is folded, as k; the sum has that digest.
  void ReduceAs(std::uint64_t k, const Digest& digest, std::uint64_t step = 0) {
    ASSERT_TRUE(Find<action::StartReduce>(replica().OnReduce(ReduceOf(Folded(step), k, step))));
    ASSERT_TRUE(Told<Reduced>(
        replica().OnGroupReduced(Step(step), GroupIndex(1), {Term(1), k}, digest, {})));
  }
  /// Reduces and commits the step. Returns the actions after its application.
  Actions Decide(std::uint64_t step = 0) {
    ReduceAs(1, {1, 1}, step);
    EXPECT_TRUE(Find<action::ApplyCommit>(replica().OnCommit(CommitOf({1, 1}, 1, step))));
    return replica().OnApplied(Step(step));
  }
  Roster RosterOf(std::uint64_t epoch, const std::vector<WorkerId>& ids,
                  std::vector<Adoption> adoptions = {}) const {
    Roster roster{Term(1), Generation(0), Epoch(epoch), {}, std::move(adoptions)};
    for (const WorkerId& id : ids) roster.members.Own().push_back({.id = id});
    std::ranges::sort(roster.members.Own(), {}, &Member::id);
    return roster;
  }

 private:
  std::optional<Replica> replica_;
};

}  // namespace swarm::protocol
