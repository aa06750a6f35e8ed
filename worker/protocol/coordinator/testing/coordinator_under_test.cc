#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

#include <algorithm>

namespace swarm::protocol {

CoordinatorTest::CoordinatorTest() {
  options_.microbatches = 2;
  options_.max_steps = 100;
  options_.learning_rate = [](Step) { return 0.1; };
}

void CoordinatorTest::Create() {
  coordinator_.emplace(options_, now_);
  rows_.clear();
}

void CoordinatorTest::StartTraining(std::vector<std::uint64_t> replicas) {
  options_.replicas = replicas;
  Create();
  // The first workers to come fill the stage that lacks most, so workers are named after that.
  std::vector<std::uint64_t> there(replicas.size(), 0);
  const std::uint64_t all = [&] {
    std::uint64_t sum = 0;
    for (const std::uint64_t r : replicas) sum += r;
    return sum;
  }();
  for (std::uint64_t i = 0; i < all; ++i) {
    std::size_t stage = 0;
    for (std::size_t s = 0; s < replicas.size(); ++s) {
      if (replicas[s] - there[s] > replicas[stage] - there[stage]) stage = s;
    }
    const std::string name =
        std::string(1, static_cast<char>('a' + stage)) + std::to_string(++there[stage]);
    Come(name);
    Load(name);
  }
  ASSERT_EQ(state(), "Training");
}

Hello CoordinatorTest::HelloOf(const std::string& name, std::uint64_t incarnation) {
  return {.id = WorkerId(name),
          .incarnation = Incarnation(incarnation),
          .cluster = "here",
          .numeric_class = "exactly so"};
}

void CoordinatorTest::Come(const std::string& name, std::uint64_t incarnation) {
  Hello hello = HelloOf(name, incarnation);
  if (const auto pod = pods_.find(name); pod != pods_.end()) hello.pod = pod->second;
  if (const auto at = regions_.find(name); at != regions_.end()) hello.region = at->second;
  if (dialled_.contains(name)) hello.addresses = {{"cluster", name + ":7000", ""}};
  Say(name, hello);
}

void CoordinatorTest::Say(const std::string& name, const Message& message) {
  Keep(coordinator_->OnMessage(WorkerId(name), message, now_));
}

void CoordinatorTest::Load(const std::string& name, const Digest& state) {
  Ready ready = state_to_load_.at(name);
  ready.state = state;
  Say(name, ready);
}

void CoordinatorTest::Lose(const std::string& name) {
  Keep(coordinator_->OnWorkersLost({{WorkerId(name), "the connection broke"}}, now_));
}

void CoordinatorTest::FallSilent(const std::string& name) {
  Keep(coordinator_->OnWorkersLost(
      {{WorkerId(name), "no sign of life", /*connected=*/true, EvictionCause::kSilent}}, now_));
}

void CoordinatorTest::Beat(const std::string& name, const Heartbeat& beat) {
  Keep(coordinator_->OnBeat(WorkerId(name), beat, now_));
}

void CoordinatorTest::Pass(Duration duration) {
  now_ += duration;
  Keep(coordinator_->OnTick(now_));
}

void CoordinatorTest::Stop() { Keep(coordinator_->OnStopRequested(now_)); }

void CoordinatorTest::Publish(Version version, const std::string& error) {
  Keep(coordinator_->OnCheckpointPublished(version, error, now_));
}

void CoordinatorTest::BeginGeneration(std::uint64_t generation, std::uint64_t version) {
  rows_.clear();
  asked_.clear();
  to_apply_.clear();
  Keep(coordinator_->OnGenerationBegun(Generation(generation), Version(version), "uri",
                                       Digest{.high = version, .low = 1}, now_));
}

void CoordinatorTest::Forward(std::uint64_t m, std::uint64_t stage) {
  Report(m, stage, 0, TaskReport::Event::kForwarded);
}

void CoordinatorTest::Fold(std::uint64_t m, std::uint64_t stage, std::uint64_t later) {
  rows_.at({step() + later, m}).at(stage).folded = true;
  Report(m, stage, later, TaskReport::Event::kFolded);
}

void CoordinatorTest::Report(std::uint64_t m, std::uint64_t stage, std::uint64_t later,
                             TaskReport::Event event) {
  TaskReport report{
      .key = Key(m, stage, later), .event = event, .seconds = 1, .boundary_bytes = boundary_bytes_};
  if (stage + 1 == options_.replicas.size()) report.loss = 2;
  Say(Owner(m, stage, later), Progress{{report}});
}

void CoordinatorTest::FoldAll() {
  const std::uint64_t stages = options_.replicas.size(), now = step();
  for (bool folded = true; std::exchange(folded, false);) {
    for (std::uint64_t m = 0; m < options_.microbatches; ++m) {
      const auto row = rows_.find({now, m});
      if (row == rows_.end()) continue;
      for (std::uint64_t s = stages; s-- > 0;) {
        if (row->second.at(s).folded) continue;
        Fold(m, s);
        folded = true;
      }
    }
  }
}

void CoordinatorTest::Reduce() {
  const auto asked = asked_;
  for (const auto& [name, reduce] : asked) Reduce(name.first, name.second);
}

void CoordinatorTest::Reduce(const std::string& name, std::uint64_t group, const Digest& digest,
                             double squared_norm) {
  const auto asked = asked_.extract({name, group});
  ASSERT_TRUE(asked) << name << " was not asked for the sum of group " << group;
  const protocol::Reduce& reduce = asked.mapped();
  Say(name, Reduced{reduce.generation,
                    reduce.step,
                    reduce.group,
                    reduce.k,
                    digest,
                    {{"tensor " + std::to_string(group), squared_norm}}});
}

void CoordinatorTest::AnswerVoids(const std::string& name) {
  const auto voids = voids_.extract(name);
  ASSERT_TRUE(voids) << name << " was not told to void anything";
  for (const Void& v : voids.mapped()) Say(name, Voided{v.generation, v.step, v.number});
}

void CoordinatorTest::Apply() {
  const auto all = std::exchange(to_apply_, {});
  for (const auto& [name, steps] : all) {
    for (const std::uint64_t step : steps) Apply(name, step, {step + 1, 7});
  }
}

void CoordinatorTest::Apply(const std::string& name, std::uint64_t step, const Digest& state) {
  to_apply_[name].erase(step);
  Say(name, Committed{coordinator_->generation(), Step(step), state});
}

void CoordinatorTest::CompleteStep() {
  const std::uint64_t begin = step();
  FoldAll();
  Reduce();
  ASSERT_EQ(step(), begin + 1);
  Apply();
}

std::vector<protocol::Forward> CoordinatorTest::Issued() const {
  std::vector<protocol::Forward> frames;
  for (const order::Issue& issue : All<order::Issue>()) frames.push_back(issue.frame);
  return frames;
}

bool CoordinatorTest::Happened(std::string_view kind) const {
  const auto events = All<order::Event>();
  return std::any_of(events.begin(), events.end(),
                     [&](const order::Event& event) { return NameOf(event.kind) == kind; });
}

std::optional<order::Finish> CoordinatorTest::Finished() const {
  const auto finishes = All<order::Finish>();
  return finishes.empty() ? std::nullopt : std::optional(finishes.front());
}

bool CoordinatorTest::IsIssued(std::uint64_t m, std::uint64_t later) const {
  return rows_.contains({step() + later, m});
}

std::string CoordinatorTest::Owner(std::uint64_t m, std::uint64_t stage,
                                   std::uint64_t later) const {
  return rows_.at({step() + later, m}).at(stage).hop.worker.value;
}

TaskKey CoordinatorTest::Key(std::uint64_t m, std::uint64_t stage, std::uint64_t later) const {
  return {coordinator_->generation(), Step(step() + later), Microbatch(m), StageIndex(stage),
          rows_.at({step() + later, m}).at(stage).hop.attempt};
}

void CoordinatorTest::Note(const protocol::Forward& frame) {
  if (frame.kind != TaskKind::kTrain) return;
  auto& row = rows_[{frame.key.step.value, frame.key.microbatch.value}];
  row.resize(frame.hops.size());
  for (std::size_t s = 0; s < row.size(); ++s) {
    if (frame.hops[s].fold && frame.hops[s] != row[s].hop) row[s] = {frame.hops[s], false};
  }
}

void CoordinatorTest::Keep(Orders orders) {
  for (Order& order : orders) {
    if (const auto* issue = std::get_if<order::Issue>(&order)) Note(issue->frame);
    if (const auto* tell = std::get_if<order::Tell>(&order)) {
      const std::string& to = tell->to.value;
      if (const auto* m = std::get_if<Resend>(&tell->message)) Note(m->frame);
      if (const auto* m = std::get_if<Welcome>(&tell->message)) {
        state_to_load_[to] = {m->generation, m->stage, m->version, m->state};
      }
      if (const auto* m = std::get_if<Rollback>(&tell->message)) {
        state_to_load_[to] = {m->generation, m->stage, m->version, {}};
      }
      if (const auto* m = std::get_if<protocol::Reduce>(&tell->message)) {
        asked_[{to, m->group.value}] = *m;
      }
      if (const auto* m = std::get_if<Void>(&tell->message)) voids_[to].push_back(*m);
      if (std::holds_alternative<Thaw>(tell->message) ||
          std::holds_alternative<Void>(tell->message)) {
        std::erase_if(asked_, [&](const auto& entry) { return entry.first.first == to; });
      }
      if (const auto* m = std::get_if<Commit>(&tell->message)) {
        to_apply_[to].insert(m->record.step.value);
      }
    }
    if (const auto* forget = std::get_if<order::Forget>(&order)) {
      std::erase_if(asked_, [&](const auto& e) { return e.first.first == forget->worker.value; });
      to_apply_.erase(forget->worker.value);
    }
    orders_.push_back(std::move(order));
  }
}

}  // namespace swarm::protocol
