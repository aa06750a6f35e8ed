#include "ctl/report/audit.h"

#include <algorithm>
#include <map>
#include <set>

#include "ctl/report/text.h"

namespace swarm::ctl {
namespace {

std::string StepText(std::uint64_t step) { return "step " + std::to_string(step); }

class Auditor {
 public:
  explicit Auditor(const RunRecord& record)
      : record_(record), microbatches_(record.job.microbatches()) {
    audit_.stages.resize(record.job.spec.pipeline.stages);
    workers_.resize(audit_.stages.size());
    for (std::size_t s = 0; s < audit_.stages.size(); ++s) audit_.stages[s].stage = s;
  }

  Audit Take() {
    for (const DamagedLine& line : record_.damaged_ledger) {
      Report(line.line, "the line cannot be read: " + line.problem);
    }
    JudgeChain();
    JudgeOrder();
    JudgeCoverage();
    for (const LedgerRow& row : record_.ledger) {
      if (row.adopted) {
        audit_.adopted.push_back(row.step);
      } else {
        JudgeStep(row);
      }
    }
    for (std::size_t s = 0; s < workers_.size(); ++s) audit_.stages[s].workers = workers_[s].size();
    std::stable_sort(audit_.problems.begin(), audit_.problems.end(),
                     [](const AuditProblem& a, const AuditProblem& b) { return a.line < b.line; });
    audit_.verdict = audit_.problem_count == 0 ? Audit::Verdict::kPassed : Audit::Verdict::kFailed;
    audit_.sentence = Sentence();
    return std::move(audit_);
  }

 private:
  /// How often each microbatch is counted.
  using Counts = std::map<std::uint64_t, std::uint64_t>;

  void Report(std::uint64_t line, std::string text) {
    ++audit_.problem_count;
    if (audit_.problems.size() < Audit::kProblemsMax) {
      audit_.problems.push_back({line, std::move(text)});
    }
  }

  /// Once a line has a digest, all later ones have one.
  void JudgeChain() {
    bool chained = false;
    for (const LedgerRow& row : record_.ledger) {
      if (row.chain == Chain::kHolds) ++audit_.chained;
      if (row.chain == Chain::kBroken) {
        Report(row.line, StepText(row.step) +
                             ": the line, or the one before it, is not the one that was written:"
                             " its digest does not match");
      }
      if (row.chain == Chain::kNone && chained) {
        Report(row.line, StepText(row.step) + ": the line has lost its digest");
      }
      chained |= row.chain != Chain::kNone;
    }
  }

  /// Generations and terms of trainers never go back.
  void JudgeOrder() {
    std::uint64_t generation = 0, term = 0;
    for (const LedgerRow& row : record_.ledger) {
      if (row.generation < generation) {
        Report(row.line, StepText(row.step) + " is of generation " +
                             std::to_string(row.generation) + ", behind one of generation " +
                             std::to_string(generation));
      }
      generation = std::max(generation, row.generation);
      for (const LedgerGroup& group : row.groups) {
        if (group.term < term) {
          Report(row.line, StepText(row.step) + ": the sum of group " +
                               std::to_string(group.group) + " is of term " +
                               std::to_string(group.term) + ", behind one of term " +
                               std::to_string(term));
        }
        term = std::max(term, group.term);
      }
    }
  }

  /// Each step from 0 on has one line in the ledger and one in steps.jsonl.
  void JudgeCoverage() {
    std::map<std::uint64_t, std::uint64_t> lines, steps;
    std::map<std::uint64_t, std::uint64_t> last_line;
    std::uint64_t end = 0;
    for (const LedgerRow& row : record_.ledger) {
      ++lines[row.step];
      last_line[row.step] = row.line;
    }
    for (const StepRow& row : record_.steps) ++steps[row.step];
    if (!lines.empty()) end = lines.rbegin()->first + 1;
    if (!steps.empty()) end = std::max(end, steps.rbegin()->first + 1);
    // A damaged number may be huge; a step that is beyond all lines is named once.
    end = std::min<std::uint64_t>(end, record_.ledger.size() + record_.steps.size() + 1);
    std::set<std::uint64_t> all;
    for (std::uint64_t step = 0; step < end; ++step) all.insert(step);
    for (const auto& [step, count] : lines) all.insert(step);
    for (const auto& [step, count] : steps) all.insert(step);
    for (const std::uint64_t step : all) {
      const std::uint64_t in_ledger = lines.contains(step) ? lines[step] : 0;
      const std::uint64_t in_steps = steps.contains(step) ? steps[step] : 0;
      // The trainer writes a step's line first, and its account right after it.
      const bool being_written =
          record_.running && !record_.steps.empty() && step == record_.steps.back().step;
      if (in_ledger == 0 && !being_written) {
        Report(0, StepText(step) + " has no line in ledger.jsonl");
      }
      if (in_ledger > 1) {
        Report(last_line[step],
               StepText(step) + " is committed " + std::to_string(in_ledger) + " times");
      }
      if (in_steps != 1) {
        Report(in_ledger > 0 ? last_line[step] : 0,
               StepText(step) + " has " + Plural(in_steps, "line") + " in steps.jsonl");
      }
    }
  }

  void JudgeStep(const LedgerRow& row) {
    ++audit_.judged;
    std::set<std::uint64_t> groups;
    for (const LedgerGroup& group : row.groups) {
      if (!groups.insert(group.group).second) {
        Report(row.line,
               StepText(row.step) + ": group " + std::to_string(group.group) + " is there twice");
      }
      JudgeGroup(row, group);
    }
    for (std::uint64_t stage = 0; stage < audit_.stages.size(); ++stage) {
      if (groups.contains(stage)) continue;
      audit_.stages[stage].missing += microbatches_;
      Report(row.line, StepText(row.step) + ": stage " + std::to_string(stage) + " has no sum");
    }
  }

  /// A sum counts each microbatch once at each of its stages. Group g below the number of stages is
  /// that of stage g; further ones have tensors that several stages share.
  void JudgeGroup(const LedgerRow& row, const LedgerGroup& group) {
    const bool of_stage = group.group < audit_.stages.size();
    std::map<std::uint64_t, Counts> counts;  // by stage
    if (of_stage) counts[group.group];
    for (const LedgerPart& part : group.parts) {
      for (const std::uint64_t microbatch : part.microbatches) ++counts[part.stage][microbatch];
      if (of_stage && part.stage == group.group && !part.microbatches.empty()) {
        workers_[group.group].insert(part.worker);
      }
    }
    for (const auto& [stage, of_microbatch] : counts) JudgeCounts(row, group, stage, of_microbatch);
  }

  void JudgeCounts(const LedgerRow& row, const LedgerGroup& group, std::uint64_t stage,
                   const Counts& counts) {
    const std::string shared =
        group.group == stage ? "" : ", in the sum of group " + std::to_string(group.group);
    const auto problem = [&](std::uint64_t microbatch, const std::string& what) {
      Report(row.line, StepText(row.step) + ": microbatch " + std::to_string(microbatch) + " is " +
                           what + " at stage " + std::to_string(stage) + shared);
    };
    StageAccount ignored;
    StageAccount& account =
        group.group == stage && stage < audit_.stages.size() ? audit_.stages[stage] : ignored;
    for (std::uint64_t microbatch = 0; microbatch < microbatches_; ++microbatch) {
      const auto found = counts.find(microbatch);
      const std::uint64_t count = found == counts.end() ? 0 : found->second;
      ++(count == 0 ? account.missing : count == 1 ? account.counted : account.repeated);
      if (count == 0) problem(microbatch, "not counted");
      if (count > 1) problem(microbatch, "counted " + std::to_string(count) + " times");
    }
    for (auto it = counts.lower_bound(microbatches_); it != counts.end(); ++it) {
      ++account.unknown;
      problem(it->first, "not of this job, but counted");
    }
  }

  std::string Sentence() const {
    if (audit_.problem_count > 0) {
      const AuditProblem& first = audit_.problems.front();
      const std::string place = first.line > 0 ? " in line " + CountText(first.line) : "";
      return "The ledger does not hold: " + Plural(audit_.problem_count, "problem") +
             ", the first" + place + ": " + first.text + ".";
    }
    if (record_.ledger.empty()) return "No step is committed yet, so there is nothing to count.";
    std::string sentence = "Every microbatch of " + Plural(audit_.judged, "committed step") +
                           " is counted exactly once at each of " +
                           Plural(audit_.stages.size(), "stage") + ", and no step is missing";
    if (!audit_.adopted.empty()) {
      sentence += "; of " + Plural(audit_.adopted.size(), "further step") +
                  ", which a trainer before had decided, the ledger names the sums alone";
    }
    if (audit_.chained == record_.ledger.size()) {
      return sentence + ". The digests of all lines match.";
    }
    return sentence + ". Without a digest, as an older program writes them: " +
           Plural(record_.ledger.size() - audit_.chained, "line") + ".";
  }

  const RunRecord& record_;
  const std::uint64_t microbatches_;
  Audit audit_;
  std::vector<std::set<std::string>> workers_;  // by stage
};

}  // namespace

Audit AuditRun(const RunRecord& record) {
  if (!record.has_ledger) {
    Audit audit;
    audit.sentence = "There is no ledger to audit: one process trained this run, without workers.";
    return audit;
  }
  return Auditor(record).Take();
}

}  // namespace swarm::ctl
