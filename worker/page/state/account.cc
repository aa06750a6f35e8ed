#include "worker/page/state/account.h"

#include <nlohmann/json.hpp>

#include "base/chained_line.h"

namespace swarm::page {
namespace {

using Json = nlohmann::ordered_json;

const char* ChainOf(const StepAccount& account) {
  if (ChainDigest(account.line).empty()) return "none";
  return ChainHolds(account.line, account.digest_before) ? "holds" : "broken";
}

}  // namespace

std::string AccountJson(const StepAccount& account, std::uint64_t microbatches,
                        std::uint64_t stages) {
  const auto known = [](const auto& step) { return step ? Json(*step) : Json(); };
  const Json json{{"microbatches", microbatches},
                  {"stages", stages},
                  {"first", known(account.first)},
                  {"last", known(account.last)},
                  {"chain", ChainOf(account)}};
  const std::string head = json.dump();
  // Not made anew: what is shown is what is written there.
  const std::string line = Json::accept(account.line) ? account.line : "null";
  return head.substr(0, head.size() - 1) + ",\"line\":" + line + "}";
}

}  // namespace swarm::page
