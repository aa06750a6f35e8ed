#include "worker/stage/join/joining.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/protocol/roster.h"

namespace swarm::stage {

using protocol::Fetch;
using protocol::Fetched;
using protocol::FetchKind;
using protocol::WorkerId;

namespace {

std::vector<WorkerId> IdsOf(const std::vector<protocol::Member>& members) {
  std::vector<WorkerId> ids;
  for (const protocol::Member& member : members) ids.push_back(member.id);
  return ids;
}

}  // namespace

StateFetch::StateFetch(const protocol::Welcome& welcome, SendFetch send, Done done,
                       MakeMemory make_memory, const std::string& region)
    : pieces_(
          {.generation = welcome.generation, .kind = FetchKind::kState, .version = welcome.version},
          welcome.state, std::nullopt, IdsOf(welcome.donors), std::move(send),
          std::move(make_memory), protocol::FarFrom(region, IdsOf(welcome.donors), welcome.donors)),
      done_(std::move(done)) {}

void StateFetch::OnTick(Timepoint now) {
  pieces_.OnTick(now);
  Conclude();
}

bool StateFetch::OnFetched(const WorkerId& from, const Fetched& fetched, const Bytes& payload,
                           Timepoint now) {
  const bool mine = pieces_.OnFetched(from, fetched, payload, now);
  if (mine) Conclude();
  return mine;
}

void StateFetch::OnDonorLost(const WorkerId& donor, Timepoint now) {
  pieces_.OnDonorLost(donor, now);
  Conclude();
}

void StateFetch::Conclude() {
  const Status status = pieces_.status();
  if (!done_ || (status.ok() && !pieces_.done())) return;
  const Done done = std::exchange(done_, nullptr);
  done(status.ok() ? checkpoint::ReadState(pieces_.whole())
                   : Result<checkpoint::TensorLookup>(status));
}

GradientFetch::GradientFetch(const protocol::CommitRecord& record, const std::vector<Group>& groups,
                             std::vector<WorkerId> donors, SendFetch send, Done done,
                             const std::set<WorkerId>& far)
    : done_(std::move(done)) {
  if (record.skip) return;
  // Small gradients have one piece. This spreads them over the donors.
  const auto first = donors.empty() ? 0 : record.step.value % donors.size();
  std::ranges::rotate(donors, donors.begin() + static_cast<std::ptrdiff_t>(first));
  for (const Group& group : groups) {
    const auto result =
        std::ranges::find(record.groups, group.index, &protocol::GroupResult::group);
    if (result == record.groups.end()) {
      misfit_ = InvalidArgument("the commit of step " + std::to_string(record.step.value) +
                                " lacks group " + std::to_string(group.index.value));
      return;
    }
    groups_.emplace_back(Fetch{.generation = record.generation,
                               .kind = FetchKind::kGradient,
                               .version = protocol::Version(record.step.value),
                               .group = group.index,
                               .k = result->k},
                         result->digest, group.bytes, donors, send, MakeHeapMemory, far);
  }
}

void GradientFetch::OnTick(Timepoint now) {
  for (PieceFetch& group : groups_) group.OnTick(now);
  Conclude();
}

bool GradientFetch::OnFetched(const WorkerId& from, const Fetched& fetched, const Bytes& payload,
                              Timepoint now) {
  const bool mine = std::ranges::any_of(
      groups_, [&](PieceFetch& group) { return group.OnFetched(from, fetched, payload, now); });
  if (mine) Conclude();
  return mine;
}

void GradientFetch::OnDonorLost(const WorkerId& donor, Timepoint now) {
  for (PieceFetch& group : groups_) group.OnDonorLost(donor, now);
  Conclude();
}

void GradientFetch::Conclude() {
  Status status = misfit_;
  std::vector<Bytes> gradients;
  for (const PieceFetch& group : groups_) {
    if (status.ok()) status = group.status();
    if (group.done()) gradients.push_back(group.whole());
  }
  if (!done_ || (status.ok() && gradients.size() < groups_.size())) return;
  const Done done = std::exchange(done_, nullptr);
  done(status.ok() ? Result<std::vector<Bytes>>(std::move(gradients)) : status);
}

}  // namespace swarm::stage
