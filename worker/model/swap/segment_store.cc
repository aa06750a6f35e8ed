#include "worker/model/swap/segment_store.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "worker/checkpoint/pieces.h"

namespace swarm::model {
namespace {

/// Before the names of the weights of the version before (Stage::State), and before those of the
/// exponents of both.
constexpr const char* kPrevious = "previous.";
constexpr const char* kScale = "optimizer.scale.";
constexpr const char* kPreviousScale = "optimizer.previous_scale.";

/// Memory for so many floats, with anything in it.
StateBlock MakeBlock(std::uint64_t count) {
  const std::shared_ptr<std::byte[]> memory = tier::MakeMemory(count * sizeof(float));
  return {at::from_blob(
      memory.get(), {static_cast<std::int64_t>(count)}, [memory](void*) {}, at::kFloat)};
}

/// Of its numbers from `first` on.
std::shared_ptr<std::byte[]> MemoryOf(const StateBlock& block, std::uint64_t first) {
  auto* const memory = reinterpret_cast<std::byte*>(block.floats() + first);
  return {std::make_shared<at::Tensor>(block.numbers), memory};
}

}  // namespace

Result<std::unique_ptr<Stage>> SegmentStore::Make(const Segment& segment, Purpose purpose,
                                                  StateBlocks given) const {
  StageOptions options = options_;
  const bool passes = purpose == Purpose::kPass;
  options.residency = passes ? api::Residency::kOffload : api::Residency::kResident;
  if (!passes) options.device = "cpu";  // a device has no room for moments
  options.part = segment.slice;
  options.boundary = {};
  options.updates = !passes;
  // An update is one of masters.
  if (purpose == Purpose::kUpdate) options.precision = api::Precision::kFP32;
  // A pass reads one version, and an update makes one.
  if (purpose != Purpose::kFill) options.step_mode = api::StepMode::kSync;
  if (passes) {
    // A sum of one contribution is that contribution, as floats.
    options.accumulation = api::Accumulation::kFloat;
    // A pass computes a segment's forward again anyhow.
    if (options.recompute == api::Recompute::kFull) options.recompute = api::Recompute::kNone;
  }
  DecoderStage::Ways ways = passes ? device_ : host_;
  ways.given = std::move(given);
  return MakeDecoderStage(options, std::move(ways));
}

SegmentStore::Coming SegmentStore::Bring(const Segment& segment, Purpose purpose,
                                         Weights version) const {
  const auto source = [&](const std::string& name) {
    const bool previous = version == Weights::kPrevious ||
                          (version == Weights::kReplaced && replaced_.contains(name));
    return previous ? kPrevious + name : name;
  };
  Coming coming;
  std::vector<TensorShelf::Place> places;
  std::vector<StateBlock>& weights = coming.blocks.weights;
  for (const Segment::Range& range : segment.ranges) weights.push_back(MakeBlock(range.count));
  weights.push_back(MakeBlock(segment.frozen_count));
  for (const ParameterSlot& slot : segment.frozen) {
    if (purpose == Purpose::kUpdate) break;  // it does not look at them (Take)
    places.push_back({slot.name, slot.name, MemoryOf(weights[slot.group], slot.offset)});
  }
  for (const ParameterSlot& slot : segment.slots) {
    places.push_back({slot.name, source(slot.name), MemoryOf(weights[slot.group], slot.offset)});
    if (purpose == Purpose::kPass) continue;
    for (const char* const field : {kFirstMoments, kSecondMoments}) {
      const std::string name = field + slot.name;
      if (!shelf_.Has(name)) continue;  // Muon has no second ones
      const StateBlock block = MakeBlock(slot.count);
      places.push_back({name, name, MemoryOf(block, 0)});
      coming.blocks.moments.emplace(name, block);
    }
  }
  coming.tensors = shelf_.Begin(places);
  return coming;
}

Result<std::unique_ptr<Stage>> SegmentStore::Take(const Segment& segment, Purpose purpose,
                                                  Version version, Coming coming) const {
  RETURN_IF_ERROR(coming.tensors->Wait());
  const StateBlock frozen = coming.blocks.weights.back();
  ASSIGN_OR_RETURN(std::unique_ptr<Stage> stage, Make(segment, purpose, std::move(coming.blocks)));
  const auto find = [&](const std::string& name) -> Result<checkpoint::NamedTensor> {
    if (purpose != Purpose::kUpdate) return coming.tensors->Find(name);
    const auto slot = std::ranges::find(segment.frozen, name, &ParameterSlot::name);
    if (slot == segment.frozen.end()) return coming.tensors->Find(ForUpdate(name));
    // In its place is anything: an update shows what is frozen to nobody.
    return checkpoint::NamedTensor{
        name, checkpoint::ElementType::kF32, slot->shape,
        Bytes::Wrap(MemoryOf(frozen, slot->offset).get(), slot->count * sizeof(float), nullptr)};
  };
  RETURN_IF_ERROR(stage->Load(find, version, /*optimizer=*/purpose == Purpose::kUpdate));
  return stage;
}

std::string SegmentStore::ForUpdate(const std::string& name) const {
  if (!name.starts_with(kScale)) return name;
  const std::string read = kPreviousScale + name.substr(std::string_view(kScale).size());
  return shelf_.Has(read) ? read : name;
}

Status SegmentStore::Store(const Segment& segment, const Stage& stage, bool whole,
                           Transit* leaving) {
  for (const checkpoint::NamedTensor& tensor : stage.State()) {
    const bool left = std::ranges::any_of(segment.left, [&](const std::string& name) {
      return tensor.name == name || tensor.name.ends_with("." + name);
    });
    const bool frozen = std::ranges::count(segment.frozen, tensor.name, &ParameterSlot::name) > 0;
    if (!left && (whole || !frozen)) RETURN_IF_ERROR(shelf_.Put(tensor, leaving));
  }
  return {};
}

bool SegmentStore::HasPrevious() const {
  return shelf_.Has(kPrevious + layout_.slots.front().name);
}

int SegmentStore::Scale(const std::string& name, Weights version) const {
  const bool previous = version == Weights::kPrevious;
  return static_cast<int>(shelf_.Number((previous ? kPreviousScale : kScale) + name));
}

void SegmentStore::KeepWeights(const Segment& segment) {
  if (options_.step_mode != api::StepMode::kDelayed) return;
  for (const ParameterSlot& slot : segment.slots) {
    const std::string& name = slot.name;
    if (std::ranges::count(segment.left, name) > 0) continue;
    shelf_.Keep(name, kPrevious + name);
    replaced_.insert(name);
    if (options_.accumulation == api::Accumulation::kExact)
      shelf_.Keep(kScale + name, kPreviousScale + name);
  }
}

Status SegmentStore::FindPieces() {
  ASSIGN_OR_RETURN(const auto found, checkpoint::FindFirstPieces(shelf_.Show(nullptr)));
  std::multimap<std::string, std::uint64_t> first;
  for (const auto& [name, at] : found) {
    const bool previous = name.starts_with(kPrevious);
    // What an update writes is the version before of the next one.
    first.emplace(previous ? name.substr(std::string_view(kPrevious).size()) : name, at);
  }
  shelf_.SetFirstPieces(std::move(first));
  return {};
}

}  // namespace swarm::model
