#include "tests/simulation/durable_store.h"

#include <algorithm>

namespace swarm::simulation {

using protocol::Generation;
using protocol::Version;

DurableStore::DurableStore() { generations_[Generation()] = {}; }

protocol::Term DurableStore::ClaimTerm() {
  newest_term_ = newest_term_.Next();
  return newest_term_;
}

std::string DurableStore::Append(const protocol::CommitRecord& record) {
  const std::uint64_t next = log_.size();
  if (record.step.value > next) {
    return "step " + std::to_string(record.step.value) + " is logged after " +
           std::to_string(next) + " lines";
  }
  if (record.step.value < next) return {};
  log_.push_back({record.generation, record});
  return {};
}

std::string DurableStore::FileOf(Generation generation, Version version,
                                 protocol::StageIndex stage) {
  return "g" + std::to_string(generation.value) + "v" + std::to_string(version.value) + "s" +
         std::to_string(stage.value);
}

std::string DurableStore::Publish(Generation generation, Version version,
                                  const std::vector<protocol::CheckpointFile>& files,
                                  std::uint64_t stages) {
  Manifest manifest{generation, version, {}};
  for (std::uint64_t s = 0; s < stages; ++s) {
    const auto file = files_.find(FileOf(generation, version, protocol::StageIndex(s)));
    if (file == files_.end()) return "stage " + std::to_string(s) + " is not written";
    if (file->second.version != version)
      return "stage " + std::to_string(s) + " is of another version";
    manifest.stages.push_back(file->second);
    const std::string others = file->first + "@";
    for (const protocol::CheckpointFile& other : files) {
      if (!other.name.starts_with(others)) continue;
      const auto& moments = files_.at(other.name).moments;
      manifest.stages.back().moments.insert(moments.begin(), moments.end());
    }
  }
  manifests_.try_emplace(
      "g" + std::to_string(generation.value) + "v" + std::to_string(version.value),
      std::move(manifest));
  return {};
}

Beginning DurableStore::Begin(Generation generation) {
  const auto known = generations_.find(generation);
  if (known != generations_.end()) return known->second;
  Beginning beginning{generation, {}, {}};
  const Manifest* newest = nullptr;
  for (const auto& [uri, manifest] : manifests_) {
    // A checkpoint that a generation published after its rollback does not belong to the job.
    const bool rolled_back = std::any_of(
        generations_.begin(), generations_.end(), [&manifest = manifest](const auto& g) {
          return g.first > manifest.generation && g.second.version < manifest.version;
        });
    const bool older = newest != nullptr && std::pair(manifest.version, manifest.generation) <
                                                std::pair(newest->version, newest->generation);
    if (rolled_back || older) continue;
    newest = &manifest;
    beginning.version = manifest.version;
    beginning.uri = uri;
  }
  generations_[generation] = beginning;
  if (log_.size() > beginning.version.value) log_.resize(beginning.version.value);
  return beginning;
}

const StageState* DurableStore::Load(const std::string& uri, protocol::StageIndex stage) const {
  const auto it = manifests_.find(uri);
  return it == manifests_.end() ? nullptr : &it->second.stages.at(stage.value);
}

}  // namespace swarm::simulation
