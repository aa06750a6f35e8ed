// The account of a step, as the page asks for it: the ledger's own line, in which the page counts.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace swarm::page {

/// A line of ledger.jsonl, and what is around it.
struct StepAccount {
  std::string line;                          ///< empty: the ledger has none of that step
  std::string digest_before;                 ///< of the line before; empty: there is none
  std::optional<std::uint64_t> first, last;  ///< steps of the ledger; nothing: it has none
};

/// {"microbatches", "stages", "first", "last", "chain", "line"}. The line is as the trainer wrote
/// it, null if there is none or it is no JSON. `chain` says of its digest "holds", "broken" or
/// "none".
std::string AccountJson(const StepAccount& account, std::uint64_t microbatches,
                        std::uint64_t stages);

}  // namespace swarm::page
