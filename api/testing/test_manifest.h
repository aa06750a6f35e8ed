// A valid manifest, which the tests of api/ modify.
#pragma once

#include <string>
#include <vector>

#include "api/parse.h"

namespace swarm::api {

inline constexpr std::string_view kGoodManifest = R"(
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: good}
spec:
  model:
    config: {hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2,
             intermediate_size: 128, vocab_size: 256}
    tokenizer: {kind: Byte}
  data: {uri: corpus.txt}
  training: {maxSteps: 100, globalBatchSize: 8, microbatchSize: 2, sequenceLength: 32}
  pipeline: {stages: 2}
  workers: {replicas: 5}
)";

inline Checked<SwarmJob> ParseGoodWith(std::vector<std::string> overrides) {
  return ParseYaml(kGoodManifest, overrides);
}

}  // namespace swarm::api
