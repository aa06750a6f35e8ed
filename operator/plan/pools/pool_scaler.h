// Scales the pools of a job: adds and removes workers until each pool has its target number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/plan/draft.h"
#include "operator/plan/observed_workers.h"
#include "operator/plan/pools/pools.h"

namespace swarm::plan {

/// The workers that stay, by pool. Its actions go into the draft.
class PoolScaler {
 public:
  /// Both must outlive this.
  PoolScaler(const std::vector<Worker>& workers, Draft* draft);

  std::vector<PoolView>& pools() { return pools_; }
  /// The number of workers that stay and whose pool is not known yet, if pods are as large as can
  /// be. They count towards the wanted number, and are left alone.
  std::uint64_t unseen() const { return unseen_; }
  /// The workers that stay in a pool, the newest first.
  const std::vector<const Worker*>& members(std::size_t pool) const { return members_[pool]; }

  /// Brings each pool to its target. A worker that has a node is removed only while enough others
  /// have one, and a worker that serves only while enough others serve: the targets' sum is enough.
  void ScaleTo(const std::vector<PoolTarget>& targets);
  void RemoveAll();
  /// Removes a worker at once: its pod is deleted, without a drain by the trainer.
  void Remove(const Worker& worker);
  /// Reserves an ordinal and creates a worker. Does nothing if the plan may create no more pods.
  void Add(std::size_t pool);

 private:
  /// Workers of the pods that count.
  std::uint64_t Count(bool (*counts)(const Worker&)) const;
  /// Workers of the targets.
  std::uint64_t GoalOf(const std::vector<PoolTarget>& targets) const;
  /// Replicas at the pod's stage, its own as one: at the one of its stages that has fewest beside.
  std::uint64_t ReplicasBeside(const Worker& worker) const;
  std::uint64_t Surplus(const std::vector<PoolTarget>& targets, std::size_t pool) const;
  void RemoveUnplaced(const std::vector<PoolTarget>& targets);
  void AddMissing(const std::vector<PoolTarget>& targets);
  void RemovePlaced(const std::vector<PoolTarget>& targets);
  const Worker* NextToDrain(std::size_t pool) const;
  void Drain(const Worker& worker);
  void ReplaceLastOfStage(std::size_t pool);
  void Forget(const Worker& worker);

  Draft* draft_;
  std::vector<PoolView> pools_;
  std::vector<std::vector<const Worker*>> members_;  // by pool; the last: pools no longer named
  std::vector<std::uint64_t> ready_of_stage_;
  DirectTrainer direct_;
  std::uint64_t unseen_ = 0;
  std::uint64_t created_ = 0;
};

}  // namespace swarm::plan
