// The audit of a run: was every microbatch of every committed step counted exactly once at each
// stage, and is each line of the ledger the one that was written? Pure.
//
// The seed, the step and the microbatch alone determine which samples those are, so counting is
// enough (tests/soak/audit.py counts the same and compares with the workers' own logs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctl/report/run_record.h"

namespace swarm::ctl {

/// Something that is wrong, with its place.
struct AuditProblem {
  std::uint64_t line = 0;  ///< of ledger.jsonl, from 1; 0: there is no such line
  std::string text;        ///< "step 7: microbatch 3 is not counted at stage 1"
};

/// What the ledger says of a stage, over all steps whose parts are known.
struct StageAccount {
  std::uint64_t stage = 0;
  std::uint64_t counted = 0;   ///< microbatches that are counted exactly once
  std::uint64_t missing = 0;   ///< that are not counted
  std::uint64_t repeated = 0;  ///< that are counted more often
  std::uint64_t unknown = 0;   ///< that the step does not have
  std::uint64_t workers = 0;   ///< that contributed
};

struct Audit {
  enum class Verdict {
    kPassed,
    kFailed,
    kNotRecorded,  ///< there is no ledger
  };
  Verdict verdict = Verdict::kNotRecorded;
  std::string sentence;
  std::vector<StageAccount> stages;
  std::uint64_t chained = 0;           ///< lines that their digest confirms
  std::uint64_t judged = 0;            ///< steps whose parts are known
  std::vector<std::uint64_t> adopted;  ///< steps whose parts only an earlier trainer knew
  std::vector<AuditProblem> problems;  ///< by line; at most kProblemsMax
  std::uint64_t problem_count = 0;     ///< of all

  static constexpr std::size_t kProblemsMax = 100;
};

Audit AuditRun(const RunRecord& record);

}  // namespace swarm::ctl
