// The state of a stage that is swapped: whole in the tier, and by segments in memory, each as an
// ordinary Stage that lives while it is needed.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/model/decoder/decoder_stage.h"
#include "worker/model/decoder/state_memory.h"
#include "worker/model/layout/layout.h"
#include "worker/model/stage.h"
#include "worker/model/swap/segment.h"
#include "worker/model/swap/tensor_shelf.h"
#include "worker/model/swap/transit.h"
#include "worker/tier/space.h"

namespace swarm::model {

/// One thread uses it. Errors are those of the tier, unless others are named.
class SegmentStore {
 public:
  using Ways = DecoderStage::Ways;
  /// `device` and `host`: ways to where segments are computed, and where they are updated. What it
  /// is given by reference must outlive it.
  SegmentStore(const StageOptions& options, const Layout& layout, tier::Space& space,
               MemoryGauge& gauge, Ways device, Ways host)
      : options_(options),
        layout_(layout),
        device_(std::move(device)),
        host_(std::move(host)),
        shelf_(space, gauge) {}

  /// Segments are computed where the host is not.
  bool on_device() const { return device_.state != device_.sums; }

  /// What the stage of a segment is for.
  enum class Purpose { kPass, kUpdate, kFill };
  /// In Delayed there are two versions. kReplaced: the one that an update replaces, which goes on.
  enum class Weights { kNewest, kPrevious, kReplaced };
  /// Of a segment, on its way to the memory that its stage takes.
  struct Coming {
    StateBlocks blocks;
    std::unique_ptr<TensorShelf::Loading> tensors;
  };
  /// Begins to bring what the stage of a segment needs for a purpose.
  Coming Bring(const Segment& segment, Purpose purpose, Weights version) const;
  /// The stage, when that is there: `version` is of its weights. Errors: also as Stage::Create.
  Result<std::unique_ptr<Stage>> Take(const Segment& segment, Purpose purpose, Version version,
                                      Coming coming) const;
  /// A stage for a segment, to be filled. Errors: as Stage::Create.
  Result<std::unique_ptr<Stage>> MakeEmpty(const Segment& segment) const {
    return Make(segment, Purpose::kFill, {});
  }
  /// Begins to write the state of a segment's stage, without what is frozen unless that is `whole`.
  /// The stage must live until `leaving` is over.
  Status Store(const Segment& segment, const Stage& stage, bool whole, Transit* leaving);
  /// As TensorShelf::Put.
  Status Put(const checkpoint::NamedTensor& tensor, Transit* leaving) {
    return shelf_.Put(tensor, leaving);
  }

  /// What the segment writes of the newest version becomes the version before, where one is kept.
  void KeepWeights(const Segment& segment);
  /// An update has replaced all of a version.
  void EndUpdate() { replaced_.clear(); }
  /// Whether there are weights of the version before.
  bool HasPrevious() const;
  /// kExact: the exponent of a parameter's contributions that follows from a version.
  int Scale(const std::string& name, Weights version) const;

  /// Of the state as it is: so updates know for which pieces to compute digests.
  Status FindPieces();
  /// As TensorShelf::Show.
  std::vector<checkpoint::NamedTensor> Show(const std::shared_ptr<const void>& reader) const {
    return shelf_.Show(reader);
  }
  /// The number of tensors.
  std::size_t size() const { return shelf_.size(); }
  void Clear() {
    shelf_.Clear();
    replaced_.clear();  // by an update that failed
  }

 private:
  Result<std::unique_ptr<Stage>> Make(const Segment& segment, Purpose purpose,
                                      StateBlocks given) const;
  /// What an update takes for the tensor `name`: sums are at the exponents of the version that
  /// their step has read, and those of the next version follow from them.
  std::string ForUpdate(const std::string& name) const;

  const StageOptions& options_;
  const Layout& layout_;
  const Ways device_, host_;
  TensorShelf shelf_;
  std::set<std::string> replaced_;  ///< parameters, by the update that goes on
};

}  // namespace swarm::model
