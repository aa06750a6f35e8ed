#include "worker/model/task_text.h"

#include <cstdint>

namespace swarm::model {

std::string TaskText(const TaskKey& key) {
  return "microbatch " + std::to_string(key.microbatch.value) + " of step " +
         std::to_string(key.step.value) + " at stage " + std::to_string(key.stage.value);
}

Status NotHeld(Version version, Version newest) {
  return NotFound("version " + std::to_string(version.value) + " of the weights; the newest is " +
                  std::to_string(newest.value));
}

Status CheckPredicts(const TokenBatch& tokens) {
  if (tokens.sequences >= 1 && tokens.tokens_per_sequence >= 2) return {};
  return InvalidArgument("forward: a microbatch needs a sequence of at least two tokens");
}

Status CheckSize(const TokenBatch& tokens) {
  const std::uint64_t expected = std::uint64_t{tokens.sequences} * tokens.tokens_per_sequence;
  if (tokens.ids.size() == expected) return {};
  return InvalidArgument("tokens: " + std::to_string(tokens.ids.size()) + " ids for " +
                         std::to_string(tokens.sequences) + " sequences of " +
                         std::to_string(tokens.tokens_per_sequence));
}

}  // namespace swarm::model
