#include "worker/protocol/audit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/rng.h"

namespace swarm::protocol {
namespace {

using Kind = Verdict::Kind;
/// The results of one input, with the workers that gave them.
using Results = std::map<std::uint64_t, std::set<WorkerId>>;

std::vector<WorkerId> InOrder(const std::set<WorkerId>& workers) {
  return {workers.begin(), workers.end()};
}

/// The workers that have given two results.
std::set<WorkerId> Contradictory(const Results& results) {
  std::set<WorkerId> seen, twice;
  for (const auto& [output, workers] : results) {
    for (const WorkerId& id : workers) {
      if (!seen.insert(id).second) twice.insert(id);
    }
  }
  return twice;
}

/// The result that is right; none: it is not known.
std::optional<std::uint64_t> Majority(const Results& results) {
  std::optional<std::uint64_t> most;
  std::size_t largest = 1;
  for (const auto& [output, workers] : results) {
    if (workers.size() > largest) {
      largest = workers.size();
      most = output;
    } else if (workers.size() == largest) {
      most.reset();
    }
  }
  return most;
}

Verdict JudgeResults(const Results& results) {
  if (results.size() < 2) return {};
  std::set<WorkerId> wrong = Contradictory(results);
  std::set<WorkerId> all;
  const auto right = Majority(results);
  for (const auto& [output, workers] : results) {
    all.insert(workers.begin(), workers.end());
    if (right && output != *right) wrong.insert(workers.begin(), workers.end());
  }
  if (!wrong.empty()) return {.kind = Kind::kConvicted, .workers = InOrder(wrong)};
  return {.kind = Kind::kDisagree, .workers = InOrder(all)};
}

}  // namespace

bool IsAudited(std::uint64_t seed, Step step, Microbatch microbatch, double fraction) {
  return Rng(MixAll(seed, step.value, microbatch.value)).Uniform() < fraction;
}

bool Add(const Testimony& testimony, Testimonies* testimonies) {
  const auto same = std::ranges::count_if(*testimonies, [&](const Testimony& t) {
    return t.worker == testimony.worker && t.stage == testimony.stage && t.part == testimony.part;
  });
  return same < kTestimoniesMax && testimonies->insert(testimony).second;
}

Verdict Judge(const Testimonies& testimonies) {
  // Forwards go up the stages, backwards come down. A key of ascending numbers in that order.
  std::map<std::pair<TaskPart, std::uint64_t>, std::map<std::uint64_t, Results>> by_part;
  for (const Testimony& t : testimonies) {
    const std::uint64_t place = t.part == TaskPart::kForward ? t.stage.value : ~t.stage.value;
    by_part[{t.part, place}][t.input][t.output].insert(t.worker);
  }
  Verdict verdict;
  for (const auto& [key, inputs] : by_part) {
    const auto& [part, place] = key;
    for (const auto& [input, results] : inputs) {
      Verdict found = JudgeResults(results);
      if (found.kind <= verdict.kind) continue;
      verdict = std::move(found);
      verdict.part = part;
      verdict.stage = StageIndex(part == TaskPart::kForward ? place : ~place);
    }
    if (verdict.kind == Kind::kConvicted) break;
  }
  return verdict;
}

bool IsConfirmed(const Testimonies& testimonies, StageIndex stage) {
  const auto confirmed = [&](TaskPart part) {
    // Sorted: those that say the same stand beside each other.
    return testimonies.end() !=
           std::ranges::adjacent_find(testimonies, [&](const Testimony& a, const Testimony& b) {
             return a.stage == stage && b.stage == stage && a.part == part && b.part == part &&
                    a.input == b.input && a.output == b.output && a.worker != b.worker;
           });
  };
  return confirmed(TaskPart::kForward) && confirmed(TaskPart::kBackward);
}

}  // namespace swarm::protocol
