#include "tests/simulation/arithmetic.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "worker/protocol/parts.h"

namespace swarm::simulation {

using protocol::GroupIndex;
using protocol::StageIndex;
using protocol::Step;
using protocol::TaskKind;
using protocol::Version;

namespace {

double UnitOf(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

std::uint64_t MixWeights(const Weights& weights) {
  std::uint64_t key = 1;
  for (const std::uint64_t w : weights) key = MixAll(key, w);
  return key;
}

}  // namespace

std::vector<GroupIndex> GroupsOf(const Job& job, StageIndex stage) {
  std::vector<GroupIndex> groups{GroupIndex(stage.value)};
  if (job.tied_head && (stage.value == 0 || stage.value + 1 == job.stages())) {
    groups.push_back(GroupIndex(job.stages()));
  }
  return groups;
}

bool IsDivided(const Job& job, GroupIndex group) {
  return job.divided && group.value < job.stages();
}

std::vector<protocol::PartName> PartsOf(const Job& job, StageIndex stage) {
  std::vector<protocol::PartName> parts;
  for (const GroupIndex group : GroupsOf(job, stage)) {
    if (!IsDivided(job, group)) continue;
    for (std::uint64_t e = 0; e < kElements; ++e) parts.push_back({group, e});
  }
  return parts;
}

bool Agree(const StageState& some, const StageState& whole) {
  return some.version == whole.version && some.weights == whole.weights &&
         std::ranges::includes(whole.moments, some.moments);
}

Digest DigestOf(const StageState& state) {
  Digest digest{state.version.value, 0};
  for (const auto& [version, weights] : state.weights) {
    digest.low = MixAll(digest.low, version.value, MixWeights(weights));
  }
  return digest;
}

StageState InitialState(const Job& job, StageIndex stage) {
  StageState state;
  for (const GroupIndex group : GroupsOf(job, stage)) {
    const std::uint64_t numbers = IsDivided(job, group) ? kElements : 1;
    for (std::uint64_t e = 0; e < numbers; ++e) {
      state.weights[Version()].push_back(MixAll(77, group.value + 100 * e));
    }
  }
  for (const protocol::PartName& part : PartsOf(job, stage)) {
    state.moments[part] = MixAll(78, part.group.value, part.part);
  }
  return state;
}

std::uint64_t Update(const protocol::CommitRecord& record, std::uint64_t level,
                     std::span<const Element> sum, std::uint64_t weight, std::uint64_t* moment) {
  if (record.skip) return weight;
  for (const Element& element : sum) {
    std::uint64_t gradient = element.value;
    if (moment != nullptr) gradient = *moment = MixAll(*moment, gradient);
    weight = MixAll(weight, gradient, level, std::bit_cast<std::uint64_t>(record.clip),
                    std::bit_cast<std::uint64_t>(record.learning_rate));
  }
  return weight;
}

void ApplyCommit(const Job& job, StageIndex stage, const protocol::CommitRecord& record,
                 std::uint64_t level, const std::vector<std::vector<Element>>& sums,
                 StageState* state) {
  Weights next = state->weights.at(state->version);
  const std::vector<GroupIndex> groups = GroupsOf(job, stage);
  std::size_t at = 0;
  for (std::size_t i = 0; !record.skip && i < groups.size(); ++i) {
    const std::span<const Element> sum(sums.at(i));
    if (!IsDivided(job, groups[i])) {
      next[at] = Update(record, level, sum, next[at], nullptr);
      ++at;
      continue;
    }
    for (std::uint64_t e = 0; e < kElements; ++e, ++at) {
      next[at] =
          Update(record, level, sum.subspan(e, 1), next[at], &state->moments.at({groups[i], e}));
    }
  }
  Advance(job, std::move(next), state);
}

void Advance(const Job& job, Weights next, StageState* state) {
  state->version = state->version.Next();
  state->weights[state->version] = std::move(next);
  while (state->weights.size() > (job.delayed ? 2u : 1u)) {
    state->weights.erase(state->weights.begin());
  }
}

Version VersionRead(const Job& job, Step step) {
  return Version(job.delayed && step.value > 0 ? step.value - 1 : step.value);
}

Bytes MakeTokens(TaskKind kind, std::uint64_t step, std::uint64_t microbatch) {
  const std::uint64_t text = MixAll(static_cast<std::uint64_t>(kind) + 5, step, microbatch);
  return Bytes::Copy(&text, sizeof text);
}

std::uint64_t EmbedTokens(const Bytes& tokens) {
  std::uint64_t text = 0;
  if (tokens.size() == sizeof text) std::memcpy(&text, tokens.data(), sizeof text);
  return Mix(text);
}

std::uint64_t ForwardOf(std::uint64_t x, const Weights& weights, std::uint64_t stage) {
  return MixAll(x, MixWeights(weights), stage);
}

double LossOf(std::uint64_t x, const Bytes& tokens) {
  return UnitOf(MixAll(x, EmbedTokens(tokens)));
}

std::uint64_t LossGradientOf(std::uint64_t x, const Bytes& tokens) {
  return MixAll(x, EmbedTokens(tokens), 3);
}

std::uint64_t InputGradientOf(std::uint64_t g, std::uint64_t x, const Weights& weights,
                              std::uint64_t stage) {
  return MixAll(g, x, MixWeights(weights), stage);
}

std::vector<std::vector<Element>> ContributionOf(std::uint64_t g, std::uint64_t x,
                                                 const Weights& weights, std::uint64_t stage,
                                                 const std::vector<GroupIndex>& groups,
                                                 std::uint64_t microbatch) {
  const std::uint64_t base = MixAll(g, x, MixWeights(weights), stage, 9);
  std::vector<std::vector<Element>> contribution;
  for (const GroupIndex group : groups) {
    contribution.emplace_back();
    for (std::uint64_t e = 0; e < kElements; ++e) {
      contribution.back().push_back({MixAll(base, group.value, e),
                                     std::uint64_t{1} << (8 * microbatch + (stage == 0 ? 0 : 4))});
    }
  }
  return contribution;
}

std::uint64_t LevelNeeded(const Job& job, Step step, std::uint64_t stage,
                          std::uint64_t microbatch) {
  if (!job.overflows) return 0;
  const std::uint64_t drawn = MixAll(0x6c6576656c, step.value, stage, microbatch) % 24;
  return drawn < 2 ? drawn + 1 : 0;
}

bool IsFinite(const Job& job, Step step, std::uint64_t stage, std::uint64_t microbatch) {
  return !job.skips || MixAll(0x66696e697465, step.value, stage, microbatch) % 24 != 0;
}

Element Quantize(const Element& element, std::uint64_t level, bool finite) {
  if (!finite) return {0, element.counts};
  return level == 0 ? element : Element{MixAll(element.value, level), element.counts};
}

void AddTo(const Job& job, const Element& from, Element* into) {
  into->value += from.value;
  // Rounds away bits that depend on what was added before, as a float sum does; zero stays neutral.
  if (job.order_sensitive && from.counts != 0 && into->counts != 0) into->value = Mix(into->value);
  into->counts += from.counts;
}

Digest DigestOf(std::span<const Element> sum) {
  Digest digest{sum.size(), 0};
  for (const Element& element : sum) digest.low = MixAll(digest.low, element.value);
  return digest;
}

Digest DigestOf(const Job& job, GroupIndex group, std::span<const Element> sum) {
  if (!IsDivided(job, group)) return DigestOf(sum);
  std::vector<Digest> parts;
  for (std::uint64_t e = 0; e < sum.size(); ++e) parts.push_back(DigestOf(sum.subspan(e, 1)));
  return protocol::CombineDigests(parts);
}

protocol::TensorNorm NormOf(const protocol::PartName& part, const Element& sum, bool finite) {
  protocol::TensorNorm norm = NormOf(part.group, {&sum, 1}, finite);
  norm.tensor += std::to_string(part.part);
  return norm;
}

protocol::TensorNorm NormOf(GroupIndex group, std::span<const Element> sum, bool finite) {
  return {std::string(1, static_cast<char>('a' + group.value)),
          finite ? UnitOf(DigestOf(sum).low) : std::numeric_limits<double>::infinity()};
}

std::uint64_t CompleteCounts(const Job& job, GroupIndex group) {
  const bool first = group.value == 0 || group.value == job.stages();
  const bool other = group.value > 0 && job.stages() > 1;
  std::uint64_t counts = 0;
  for (std::uint64_t m = 0; m < job.microbatches; ++m) {
    counts |= std::uint64_t{(first ? 1u : 0u) + (other ? 16u : 0u)} << (8 * m);
  }
  return counts;
}

double LearningRate(Step step) { return 1.0 / static_cast<double>(step.value + 1); }

Reference::Reference(const Job& job) : job_(job) {
  states_.emplace_back();
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    states_.back().push_back(InitialState(job_, StageIndex(s)));
  }
  for (std::uint64_t t = 0; t < job_.steps; ++t) RunStep(t);
}

std::uint64_t Reference::LevelOf(Step step, std::uint64_t stage) const {
  const auto is_end = [&](std::uint64_t s) { return s == 0 || s + 1 == job_.stages(); };
  std::uint64_t level = 0;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (s != stage && !(job_.tied_head && is_end(s) && is_end(stage))) continue;
    for (std::uint64_t m = 0; m < job_.microbatches; ++m) {
      level = std::max(level, LevelNeeded(job_, step, s, m));
    }
  }
  return level;
}

void Reference::RunStep(std::uint64_t t) {
  const Version read = VersionRead(job_, Step(t));
  const std::uint64_t stages = job_.stages();
  const std::uint64_t groups = stages + (job_.tied_head ? 1 : 0);
  StepResult result;
  result.sums.assign(groups, std::vector<Element>(kElements));
  std::vector<bool> finite(groups, true);
  std::vector<double> losses;
  for (std::uint64_t m = 0; m < job_.microbatches; ++m) {
    const Bytes tokens = MakeTokens(TaskKind::kTrain, t, m);
    std::vector<std::uint64_t> x{EmbedTokens(tokens)};
    const auto weights = [&](std::uint64_t s) -> const Weights& {
      return states_[t][s].weights.at(read);
    };
    for (std::uint64_t s = 0; s < stages; ++s) x.push_back(ForwardOf(x.back(), weights(s), s));
    losses.push_back(LossOf(x.back(), tokens));
    std::uint64_t g = LossGradientOf(x.back(), tokens);
    for (std::uint64_t s = stages; s-- > 0;) {
      const auto owned = GroupsOf(job_, StageIndex(s));
      const auto contribution = ContributionOf(g, x[s], weights(s), s, owned, m);
      const bool is_finite = IsFinite(job_, Step(t), s, m);
      for (std::size_t i = 0; i < owned.size(); ++i) {
        finite[owned[i].value] = finite[owned[i].value] && is_finite;
        for (std::uint64_t e = 0; e < kElements; ++e) {
          const Element element = Quantize(contribution[i][e], LevelOf(Step(t), s), is_finite);
          result.sums[owned[i].value][e].value += element.value;
        }
      }
      g = InputGradientOf(g, x[s], weights(s), s);
    }
  }
  protocol::CommitInputs inputs{.step = Step(t),
                                .losses = losses,
                                .max_grad_norm = job_.max_grad_norm,
                                .learning_rate = LearningRate(Step(t))};
  for (std::uint64_t g = 0; g < groups; ++g) {
    const GroupIndex group(g);
    const std::uint64_t level = LevelOf(Step(t), g < stages ? g : 0);
    const std::vector<Element>& sum = result.sums[g];
    inputs.groups.push_back({{group, {}, DigestOf(job_, group, sum), level}, {}});
    std::vector<protocol::TensorNorm>& norms = inputs.groups.back().norms;
    if (!IsDivided(job_, group)) norms.push_back(NormOf(group, sum, finite[g]));
    for (std::uint64_t e = 0; IsDivided(job_, group) && e < kElements; ++e) {
      norms.push_back(NormOf(protocol::PartName{group, e}, sum[e], finite[g]));
    }
  }
  result.record = protocol::DecideCommit(inputs);
  states_.push_back(states_.back());
  for (std::uint64_t s = 0; s < stages; ++s) {
    std::vector<std::vector<Element>> sums;
    for (const GroupIndex group : GroupsOf(job_, StageIndex(s))) {
      sums.push_back(result.sums[group.value]);
    }
    ApplyCommit(job_, StageIndex(s), result.record, LevelOf(Step(t), s), sums, &states_.back()[s]);
  }
  steps_.push_back(std::move(result));
}

double Reference::ValidationLoss(Version version) const {
  double sum = 0;
  for (std::uint64_t m = 0; m < job_.validation_microbatches; ++m) {
    const Bytes tokens = MakeTokens(TaskKind::kEvaluate, 0, m);
    std::uint64_t x = EmbedTokens(tokens);
    for (std::uint64_t s = 0; s < job_.stages(); ++s) {
      x = ForwardOf(x, states_[version.value][s].weights.at(version), s);
    }
    sum += LossOf(x, tokens);
  }
  return sum / static_cast<double>(job_.validation_microbatches);
}

}  // namespace swarm::simulation
