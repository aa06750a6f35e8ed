#include "worker/chaos/fault_rules.h"

#include <sstream>

namespace swarm::chaos {
namespace {

constexpr long kDelayMsMax = 3'600'000;

bool Matches(const std::string& pattern, const protocol::WorkerId& id) {
  return pattern == "*" ? !id.value.starts_with("observer/") : pattern == id.value;
}

bool Holds(const FaultRule& rule, const protocol::WorkerId& from, const protocol::WorkerId& to) {
  return Matches(rule.from, from) && Matches(rule.to, to);
}

}  // namespace

bool IsCut(const FaultRules& rules, const protocol::WorkerId& from, const protocol::WorkerId& to) {
  for (const FaultRule& rule : rules) {
    if (!rule.delay && Holds(rule, from, to)) return true;
  }
  return false;
}

Duration DelayOf(const FaultRules& rules, const protocol::WorkerId& from,
                 const protocol::WorkerId& to) {
  Duration sum{};
  for (const FaultRule& rule : rules) {
    if (rule.delay && Holds(rule, from, to)) sum += *rule.delay;
  }
  return sum;
}

std::string FormatFaultRules(const FaultRules& rules) {
  std::string text;
  for (const FaultRule& rule : rules) {
    text += (rule.delay ? "delay " : "cut ") + rule.from + " " + rule.to;
    if (rule.delay) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*rule.delay);
      text += " " + std::to_string(ms.count());
    }
    text += "\n";
  }
  return text;
}

Result<FaultRules> ParseFaultRules(std::string_view text) {
  FaultRules rules;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string verb, rest;
    FaultRule rule;
    if (!(words >> verb) || verb == "hold" || verb == "corrupt") continue;
    bool good = static_cast<bool>(words >> rule.from >> rule.to);
    if (good && verb == "delay") {
      long ms = 0;
      good = words >> ms && ms >= 0 && ms <= kDelayMsMax;
      rule.delay = std::chrono::milliseconds(ms);
    } else {
      good = good && verb == "cut";
    }
    if (!good || words >> rest) {
      return InvalidArgument("'" + line + "': expected 'cut FROM TO' or 'delay FROM TO MS'");
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace swarm::chaos
