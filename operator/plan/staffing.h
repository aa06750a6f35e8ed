// Who is created and who goes, once it is known how many each pool shall have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/plan/draft.h"
#include "operator/plan/pools.h"
#include "operator/plan/workforce.h"

namespace swarm::plan {

/// The workers that stay, by pool; what it decides goes into the draft.
class Staffing {
 public:
  /// Both must outlive it.
  Staffing(const std::vector<Worker>& workers, Draft* draft);

  std::vector<PoolView>& pools() { return pools_; }
  /// Those that stay and whose pool is not known yet: they count, and are left alone.
  std::uint64_t unseen() const { return unseen_; }
  /// Those that stay in a pool, the newest first.
  const std::vector<const Worker*>& members(std::size_t pool) const { return members_[pool]; }

  /// Makes each pool's number its target. A worker that has a node goes only once as many others
  /// as are wanted do; one that serves only once as many others serve.
  void Adjust(const std::vector<PoolTarget>& targets);
  void RemoveAll();
  /// At once, without anybody's leave.
  void Remove(const Worker& worker);
  /// Reserves and creates one; nothing where creations have to wait.
  void Add(std::size_t pool);

 private:
  std::uint64_t Count(bool (*counts)(const Worker&)) const;
  std::uint64_t Over(const std::vector<PoolTarget>& targets, std::size_t pool) const;
  void RemoveUnplaced(const std::vector<PoolTarget>& targets);
  void AddMissing(const std::vector<PoolTarget>& targets);
  void RemovePlaced(const std::vector<PoolTarget>& targets);
  const Worker* NextToDrain(std::size_t pool) const;
  void Drain(const Worker& worker);
  void MakeDispensable(std::size_t pool);
  void Forget(const Worker& worker);

  Draft* draft_;
  std::vector<PoolView> pools_;
  std::vector<std::vector<const Worker*>> members_;  // by pool; the last: pools not named any more
  std::vector<std::uint64_t> ready_of_stage_;
  DirectTrainer direct_;
  std::uint64_t unseen_ = 0;
  std::uint64_t created_ = 0;
};

}  // namespace swarm::plan
