// The payloads of a stage worker's tasks, by task: those that arrived and those to be sent. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/memory/account.h"

namespace swarm::stage {

class Payloads {
 public:
  using TaskKey = protocol::TaskKey;

  /// Bytes and their charge.
  struct Held {
    Bytes bytes;
    MemoryCharge charge;
  };
  /// The input of a forward.
  struct Input {
    protocol::Forward frame;
    Held boundary;       ///< x_s
    MemoryCharge graph;  ///< from the forward to the fold
  };

  /// The account outlives this.
  explicit Payloads(MemoryAccount* account) : account_(account) {}

  /// False: there is already an input of that key, which stays.
  bool AddInput(const protocol::Forward& frame, Bytes boundary) {
    const auto [it, fresh] = inputs_.try_emplace(frame.key);
    if (!fresh) return false;
    it->second = {frame, Hold(MemoryKind::kInputs, std::move(boundary)), {}};
    return true;
  }
  /// Null: there is none. Its boundary is empty after TakeBoundary; the frame stays until
  /// DropInput, so that a repeated frame is still refused.
  const Input* FindInput(const TaskKey& key) const {
    const auto it = inputs_.find(key);
    return it == inputs_.end() ? nullptr : &it->second;
  }
  Bytes TakeBoundary(const TaskKey& key) {
    const auto it = inputs_.find(key);
    return it == inputs_.end() ? Bytes() : std::exchange(it->second.boundary, Held()).bytes;
  }
  /// The forward of `key` has left a graph of about so many bytes, until DropInput.
  void NoteGraph(const TaskKey& key, std::uint64_t bytes) {
    const auto it = inputs_.find(key);
    if (it != inputs_.end()) it->second.graph = MemoryCharge(account_, MemoryKind::kGraphs, bytes);
  }
  void DropInput(const TaskKey& key) { inputs_.erase(key); }

  /// g_{s+1}, until the task's backward. False: there is already one of that key, which stays.
  bool AddGradient(const TaskKey& key, Bytes gradient) {
    const auto [it, fresh] = gradients_.try_emplace(key);
    if (fresh) it->second = Hold(MemoryKind::kInputs, std::move(gradient));
    return fresh;
  }
  /// Empty if there is none.
  Bytes TakeGradient(const TaskKey& key) {
    auto node = gradients_.extract(key);
    return node ? std::move(node.mapped().bytes) : Bytes();
  }
  void DropGradient(const TaskKey& key) { gradients_.erase(key); }

  /// x_{s+1} and g_s, as long as the replica retains them. Output and Returned are empty if there
  /// is none.
  void KeepOutput(const TaskKey& key, Bytes output) {
    outputs_[key] = Hold(MemoryKind::kRetained, std::move(output));
  }
  Bytes Output(const TaskKey& key) const { return Find(outputs_, key); }
  void DropOutput(const TaskKey& key) { outputs_.erase(key); }
  void KeepReturned(const TaskKey& key, Bytes gradient) {
    returned_[key] = Hold(MemoryKind::kRetained, std::move(gradient));
  }
  Bytes Returned(const TaskKey& key) const { return Find(returned_, key); }
  void DropReturned(const TaskKey& key) { returned_.erase(key); }

  /// Drops everything of this step and of those before.
  void DropUpTo(protocol::Step step) {
    const auto over = [&](const auto& entry) { return entry.first.step <= step; };
    std::erase_if(inputs_, over);
    std::erase_if(gradients_, over);
    std::erase_if(outputs_, over);
    std::erase_if(returned_, over);
  }
  void Clear() {
    inputs_.clear();
    gradients_.clear();
    outputs_.clear();
    returned_.clear();
  }

 private:
  using Map = std::map<TaskKey, Held>;

  Held Hold(MemoryKind kind, Bytes bytes) const {
    MemoryCharge charge(account_, kind, bytes.size());
    return {std::move(bytes), std::move(charge)};
  }
  static Bytes Find(const Map& in, const TaskKey& key) {
    const auto it = in.find(key);
    return it == in.end() ? Bytes() : it->second.bytes;
  }

  MemoryAccount* const account_;
  std::map<TaskKey, Input> inputs_;
  Map gradients_, outputs_, returned_;
};

}  // namespace swarm::stage
