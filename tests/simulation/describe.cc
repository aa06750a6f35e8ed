#include "tests/simulation/describe.h"

#include <type_traits>

namespace swarm::simulation {

using namespace protocol;  // the alternatives of Message, which are all named here

namespace {

/// The name of a type, as the compiler spells it, without its namespace.
template <typename T>
std::string NameOf() {
  const std::string text = __PRETTY_FUNCTION__;
  const std::size_t end = text.find_first_of(";]", text.find("T = "));
  const std::size_t begin = text.rfind(':', end) + 1;
  return text.substr(begin, end - begin);
}

std::string Text(std::uint64_t value) { return std::to_string(value); }
std::string Text(const Attempt& a) { return Text(a.term.value) + "." + Text(a.n); }

std::string Text(const CommitRecord& record) {
  std::string text = " step " + Text(record.step.value);
  for (const GroupResult& g : record.groups) {
    text += " g" + Text(g.group.value) + "@" + Text(g.k) + "=" + g.digest.Hex().substr(28);
  }
  return text;
}

std::string Text(const TaskReport& report) {
  return " " + std::string(swarm::NameOf(report.event)) + " " + Describe(report.key);
}

std::string Text(const std::vector<Adoption>& adoptions) {
  std::string text;
  for (const Adoption& a : adoptions) {
    text += " " + a.donor.value + "->" + a.heir.value + "@" + Text(a.step.value);
  }
  return text;
}

std::string Text(const Roster& roster) {
  std::string text = " epoch " + Text(roster.epoch.value) + ":";
  for (const Member& m : roster.members) text += " " + m.id.value + "/" + Text(m.stage.value);
  return text + Text(roster.adoptions);
}

std::string Text(const RosterChange& change) {
  std::string text = " epoch " + Text(change.epoch.value) + ":";
  for (const WorkerId& id : change.gone) text += " -" + id.value;
  for (const Member& m : change.came) text += " +" + m.id.value + "/" + Text(m.stage.value);
  return text + Text(change.adoptions);
}

std::string Text(const Holding& holding) {
  std::string text = " version " + Text(holding.version.value) + Text(holding.roster);
  for (const CommitRecord& record : holding.records) text += " record" + Text(record);
  for (const HeldStep& step : holding.steps) {
    text += " step " + Text(step.step.value) + " folded";
    for (const Contribution& c : step.folded) text += " " + Text(c.microbatch.value);
  }
  return text;
}

std::string HopsText(const Forward& frame) {
  std::string text = frame.kind == TaskKind::kEvaluate ? " evaluate" : "";
  for (const Hop& hop : frame.hops) {
    text += " " + hop.worker.value + "@" + Text(hop.attempt) + (hop.fold ? "" : "(no fold)");
  }
  text += " first " + Text(frame.first.value) + " end " + Text(frame.end.value);
  if (!frame.upstream.worker.empty()) text += " up " + frame.upstream.worker.value;
  return text + " v" + Text(frame.version.value);
}

/// All that there is of the members that most messages share.
template <typename M>
std::string Members(const M& m) {
  std::string text = NameOf<M>();
  if constexpr (requires { m.term.value; }) text += " term " + Text(m.term.value);
  if constexpr (requires { m.generation.value; }) text += " gen " + Text(m.generation.value);
  if constexpr (requires { m.key.microbatch; }) text += " " + Describe(m.key);
  if constexpr (requires { m.source.microbatch; }) text += " of " + Describe(m.source);
  if constexpr (requires { m.target.microbatch; }) text += " for " + Describe(m.target);
  if constexpr (requires { m.step.value; }) text += " step " + Text(m.step.value);
  if constexpr (requires { m.stage.value; }) text += " stage " + Text(m.stage.value);
  if constexpr (requires { m.version.value; }) text += " version " + Text(m.version.value);
  if constexpr (requires { m.group.value; }) text += " group " + Text(m.group.value);
  if constexpr (requires { m.k.n; }) text += " k " + Text(m.k);
  if constexpr (requires { m.number.n; }) text += " number " + Text(m.number);
  if constexpr (requires { m.to.value; }) text += " to " + m.to.value;
  if constexpr (requires { m.heir.value; }) text += " heir " + m.heir.value;
  if constexpr (requires { m.donor.value; }) text += " donor " + m.donor.value;
  if constexpr (requires { m.worker.value; }) text += " " + m.worker.value;
  if constexpr (requires { m.kind.size(); }) text += " " + m.kind;
  if constexpr (requires { m.reason.size(); }) text += ": " + std::string(m.reason);
  if constexpr (requires { m.error.size(); }) text += m.error.empty() ? "" : " error " + m.error;
  if constexpr (requires { m.text.size(); }) text += ": " + m.text;
  return text;
}

template <typename M>
std::string DescribeOne(const M& m) {
  std::string text = Members(m);
  if constexpr (std::is_same_v<M, Forward>) text += HopsText(m);
  if constexpr (requires { m.frame.hops; }) text += HopsText(m.frame);
  if constexpr (requires { m.record.groups; }) text += Text(m.record);
  if constexpr (std::is_same_v<M, Roster>) text += Text(m);
  if constexpr (std::is_same_v<M, RosterChange>) text += Text(m);
  if constexpr (std::is_same_v<M, Holding>) text += Text(m);
  if constexpr (std::is_same_v<M, Hello>) {
    text += m.serving ? " serving" : m.offers ? " with a state" : "";
  }
  if constexpr (std::is_same_v<M, Revoked>) text += m.folded ? " folded" : " closed";
  if constexpr (std::is_same_v<M, Missing>) text += m.gradient ? " gradient" : " output";
  if constexpr (std::is_same_v<M, Progress>) {
    for (const TaskReport& report : m.reports) text += Text(report);
  }
  if constexpr (requires { m.participants; }) {
    for (const WorkerId& p : m.participants) text += " " + p.value;
  }
  if constexpr (requires { m.claims.microbatches; }) {
    text += " {";
    for (const Microbatch mb : m.claims.microbatches) text += Text(mb.value) + " ";
    text += "}";
  }
  if constexpr (requires { m.folded.microbatches; }) {
    for (const Microbatch mb : m.folded.microbatches) text += " " + Text(mb.value);
  }
  return text;
}

}  // namespace

std::string Describe(const TaskKey& key) {
  return "(t" + Text(key.step.value) + " m" + Text(key.microbatch.value) + " s" +
         Text(key.stage.value) + " @" + Text(key.attempt) +
         (key.generation.value > 0 ? " g" + Text(key.generation.value) : "") + ")";
}

std::string Describe(const Message& message) {
  return std::visit([](const auto& m) { return DescribeOne(m); }, message);
}

std::string Describe(const Action& action) {
  return std::visit(
      [](const auto& a) {
        using A = std::decay_t<decltype(a)>;
        std::string text = DescribeOne(a);
        if constexpr (std::is_same_v<A, action::Tell>) text += " " + Describe(a.message);
        if constexpr (requires { a.message.key; }) text += " as " + DescribeOne(a.message);
        if constexpr (std::is_same_v<A, action::StartReduce>) text += " " + DescribeOne(a.reduce);
        return text;
      },
      action);
}

std::string Describe(const Order& order) {
  return std::visit(
      [](const auto& o) {
        using O = std::decay_t<decltype(o)>;
        std::string text = DescribeOne(o);
        if constexpr (std::is_same_v<O, order::Tell>) text += ": " + Describe(o.message);
        if constexpr (std::is_same_v<O, order::Issue>) text += " " + DescribeOne(o.frame);
        if constexpr (std::is_same_v<O, order::Finish>) text += o.succeeded ? " succeeded" : "";
        return text;
      },
      order);
}

}  // namespace swarm::simulation
