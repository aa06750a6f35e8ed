// Measures what a step's sum and update cost a replica of a stage of 2, 4 and 8: where each replica
// updates the whole stage, and where two replicas update each tensor (docs/protocol.md, rule 31).
// The replicas take turns in this process, so seconds are those of a machine of its own. Bytes are
// what they send: chunks of the sum, and weights to those that do not update them.
// Usage: update_bench [LAYERS=6] [HIDDEN=512] [ROUNDS=5]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "base/time.h"
#include "worker/model/stage.h"
#include "worker/protocol/parts.h"
#include "worker/stage/reduce/reduce.h"

namespace swarm::stage {
namespace {

using protocol::PartHolders;
using protocol::WorkerId;

struct Cost {
  double seconds = 0;       ///< of a step's update, the mean of the replicas
  double most_seconds = 0;  ///< of the slowest replica
  double sent = 0;          ///< bytes, the mean of the replicas
  double most_moments = 0;  ///< bytes that a replica holds, at most
};

model::StageOptions OptionsOf(std::int64_t layers, std::int64_t hidden, api::Accumulation sums) {
  model::StageOptions options;
  options.config = {.hidden_size = hidden,
                    .num_hidden_layers = layers,
                    .num_attention_heads = hidden / 64,
                    .num_key_value_heads = hidden / 64,
                    .head_dim = 64,
                    .intermediate_size = 4 * hidden,
                    .vocab_size = 32};
  options.accumulation = sums;
  return options;
}

std::unique_ptr<model::Stage> MakeStage(model::StageOptions options, bool divided) {
  options.divided = divided;
  auto stage = model::Stage::Create(options);
  SWARM_CHECK(stage.ok(), stage.status().ToString());
  (*stage)->InitRandom(1);
  return *std::move(stage);
}

/// Bytes that each of the participants sends in a sum.
std::vector<std::uint64_t> SendSum(const protocol::Reduce& reduce, const model::GradientSum& own,
                                   const std::vector<std::uint64_t>& sizes) {
  struct Message {
    std::size_t from;
    WorkerId to;
    protocol::ReduceChunk chunk;
    Bytes payload;
  };
  BufferPool buffers;
  std::deque<Message> messages;
  std::vector<std::uint64_t> sent(reduce.participants.size());
  std::vector<std::unique_ptr<GroupReduce>> sums;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sums.push_back(std::make_unique<GroupReduce>(
        reduce, reduce.participants[i], own, buffers,
        [&, i](const WorkerId& to, protocol::ReduceChunk chunk, Bytes payload) {
          sent[i] += payload.size();
          messages.push_back({i, to, chunk, std::move(payload)});
        },
        Thinning{}, sizes));
  }
  for (auto& sum : sums) sum->Start();
  while (!messages.empty()) {
    const Message message = std::move(messages.front());
    messages.pop_front();
    const auto to = std::ranges::find(reduce.participants, message.to);
    const Status status = sums[static_cast<std::size_t>(to - reduce.participants.begin())]->OnChunk(
        reduce.participants[message.from], message.chunk, message.payload);
    SWARM_CHECK(status.ok(), status.message());
  }
  for (const auto& sum : sums) SWARM_CHECK(sum->done(), "a sum that does not come to its end");
  return sent;
}

Cost Measure(const model::StageOptions& options, std::size_t replicas, bool divided, int rounds) {
  std::vector<WorkerId> names;
  for (std::size_t i = 0; i < replicas; ++i) names.emplace_back("w" + std::to_string(i));
  Cost cost;
  std::vector<std::uint64_t> sizes;
  std::vector<PartHolders> holders;
  for (std::size_t i = 0; i < replicas; ++i) {
    const auto stage = MakeStage(options, divided);
    const model::GradientSum own = stage->Accumulator(model::Step(0), 0);
    if (i == 0) {
      for (const model::ParameterSlot& slot : stage->parameters()) sizes.push_back(slot.count);
      if (divided) {
        const std::vector<std::set<WorkerId>> whole(sizes.size(), {names.begin(), names.end()});
        holders = protocol::ChooseHolders(sizes, whole, names);
      }
      protocol::Reduce reduce;
      reduce.participants = names;
      reduce.holders = holders;
      const auto sent = SendSum(reduce, own, divided ? sizes : std::vector<std::uint64_t>());
      cost.sent = std::accumulate(sent.begin(), sent.end(), 0.0) / static_cast<double>(replicas);
    }
    model::Division division;
    std::vector<Bytes> weights(sizes.size());
    std::uint64_t moments = 0;
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      division.own.push_back(!divided || holders[p].Has(names[i]));
      division.magnitude_bits.push_back(0);
      if (division.own[p]) {
        moments += 2 * sizes[p] * sizeof(float);
        continue;
      }
      const std::vector<float> taken(sizes[p], 0.5F);
      weights[p] = Bytes::Copy(taken.data(), taken.size() * sizeof(float));
      cost.sent += static_cast<double>(weights[p].size()) / static_cast<double>(replicas);
    }
    if (options.accumulation == api::Accumulation::kFloat) division.magnitude_bits.clear();
    std::vector<double> seconds;
    for (int round = 0; round <= rounds; ++round) {
      const Timepoint begin = Clock::now();
      if (divided) {
        SWARM_CHECK(stage->BeginApply({&own.elements, 1}, 1, 1e-3, false, division).ok(), "update");
        SWARM_CHECK(stage->FinishApply(weights).ok(), "update");
      } else {
        SWARM_CHECK(stage->Apply({&own.elements, 1}, 1, 1e-3, false).ok(), "update");
      }
      if (round > 0) seconds.push_back(ToSeconds(Clock::now() - begin));
    }
    std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
    const double median = seconds[static_cast<std::size_t>(rounds / 2)];
    cost.seconds += median / static_cast<double>(replicas);
    cost.most_seconds = std::max(cost.most_seconds, median);
    cost.most_moments = std::max(cost.most_moments, static_cast<double>(moments));
  }
  return cost;
}

int Run(std::int64_t layers, std::int64_t hidden, int rounds) {
  std::printf("%-6s %8s %8s  %12s %12s  %10s  %12s\n", "sums", "replicas", "update", "mean ms",
              "slowest ms", "sent MB", "moments MB");
  for (const api::Accumulation sums : {api::Accumulation::kFloat, api::Accumulation::kExact}) {
    const model::StageOptions options = OptionsOf(layers, hidden, sums);
    for (const std::size_t replicas : {2u, 4u, 8u}) {
      for (const bool divided : {false, true}) {
        const Cost cost = Measure(options, replicas, divided, rounds);
        std::printf("%-6s %8zu %8s  %12.1f %12.1f  %10.1f  %12.1f\n",
                    sums == api::Accumulation::kFloat ? "Float" : "Exact", replicas,
                    divided ? "Moments" : "None", 1e3 * cost.seconds, 1e3 * cost.most_seconds,
                    cost.sent / 1e6, cost.most_moments / 1e6);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace swarm::stage

int main(int argc, char** argv) {
  const auto number = [&](int i, long otherwise) {
    return argc > i ? std::strtol(argv[i], nullptr, 10) : otherwise;
  };
  return swarm::stage::Run(number(1, 6), number(2, 512), static_cast<int>(number(3, 5)));
}
