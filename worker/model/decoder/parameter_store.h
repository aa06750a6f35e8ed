// The durable state of a stage: the versions of its weights that rule 10 of docs/protocol.md keeps,
// and its optimizer. Weights has the copies for the computation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer_pool.h"
#include "worker/model/decoder/piece_digests.h"
#include "worker/model/decoder/state_kernels.h"
#include "worker/model/decoder/state_memory.h"
#include "worker/model/decoder/weights.h"
#include "worker/model/layout/layout.h"
#include "worker/model/readers.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// The parts of a commit besides the gradients.
struct ApplyOptions {
  double clip = 1;
  double learning_rate = 0;
  bool skip = false;
  unsigned scale_level = 0;  ///< at which the sums were taken
};

/// Has more than 15 fields: the parts of the state, and what the update needs of the options.
class ParameterStore {
 public:
  /// No version is held yet. The update runs where `memory` is: on the host, or on `device`, whose
  /// own memory `there` reaches. `layout` and both must outlive this. With `given`, which is of one
  /// version and on the host, requires a Load of all that it is for.
  ParameterStore(const Layout& layout, const StageOptions& options, at::Device device,
                 StateMemory& memory, StateMemory& there, StateBlocks given);

  Version version() const { return version_; }
  /// The weights of a held version, else nullptr. Delayed mode holds the newest version and, after
  /// the first update, the one before it.
  const Weights* Find(Version version) const;

  /// The contracts of Stage's functions of the same names.
  void InitRandom(std::uint64_t seed);
  Status Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer);
  /// As Stage::Replace.
  Status Replace(const checkpoint::TensorLookup& weights);
  std::vector<checkpoint::NamedTensor> State() const;
  Status Apply(std::span<const Bytes> sums, const ApplyOptions& options);
  /// As Apply, with sums of floats (one a group) that are in `memory`, on a device.
  Status ApplyFrom(std::span<const StateBlock> sums, const ApplyOptions& options);
  bool HoldsPart(std::uint64_t part) const;
  std::uint64_t MomentBytes(std::uint64_t part) const;
  std::vector<checkpoint::NamedTensor> PartState(std::uint64_t part) const;
  Status TakeMoments(std::uint64_t part, const Bytes& moments);
  Result<std::vector<Bytes>> BeginApply(std::span<const Bytes> sums, const ApplyOptions& options,
                                        const Division& division);
  Status FinishApply(std::span<const Bytes> weights);

  /// With Accumulation::kExact, the exponents of a step at a scale level, one for each of
  /// Layout::slots: those of the version that the step reads, lowered. Requires: that version is
  /// held.
  std::vector<int> Exponents(Step step, unsigned level) const;

 private:
  struct Piece;
  /// Reduced sums, one a group: on the host, or where the state is.
  struct Sums {
    std::span<const Bytes> elements;
    std::span<const StateBlock> here;
  };
  Weights& newest() { return *buffers_[newest_]; }
  const Weights& newest() const { return *buffers_[newest_]; }
  const Weights& previous() const { return *buffers_[1 - newest_]; }
  void Reset(Version version);
  Status LoadTensors(const checkpoint::TensorLookup& tensors, bool optimizer);
  Status LoadOptimizer(const checkpoint::TensorLookup& tensors);
  Status LoadScales(const checkpoint::TensorLookup& tensors);
  /// Maps coefficients in the basis that this step has read to coefficients in the newest basis
  /// (Overlap of subspace.h); empty where the two bases are equal. In Delayed mode they differ
  /// after a turn, and the sums then refer to a basis that no longer exists.
  Result<std::vector<double>> OverlapSinceRead() const;
  void UpdateOnHost(std::span<const Bytes> sums, const ApplyOptions& options,
                    std::span<const double> overlap, Weights& to);
  /// The same to the bit, by kernels; but Muon's steps are the host's.
  Status UpdateOnDevice(const Sums& sums, const ApplyOptions& options,
                        std::span<const double> overlap, Weights& to);
  /// Updates the whole of a parameter.
  Status UpdateOnDevice(const Piece& parameter, const Bytes& sum, int exponent,
                        const ApplyOptions& options, std::span<const double> overlap, Weights& to);
  /// Steps the parameter by a gradient on the device; `of` is the block that has it, if one does.
  Status StepOnDevice(const Piece& parameter, const at::Tensor& gradient, const StateBlock& of,
                      const ApplyOptions& options, Weights& to);
  Status StepByMuon(const ParameterSlot& slot, std::span<const float> gradient,
                    const ApplyOptions& options, Weights& to);
  optim::UpdateOptions OptionsOf(const ParameterSlot& slot, const ApplyOptions& options) const;
  /// Gives a parameter's weights to `change` on the host, as StateMemory::EditOnHost does.
  Status EditWeights(const Weights& weights, const ParameterSlot& slot, StateMemory::Edit edit,
                     const std::function<Status(std::span<float>)>& change);
  Status EditMoments(const StateBlock& moments, StateMemory::Edit edit,
                     const std::function<Status(std::span<float>)>& change);
  StateBlock ZerosOf(const ParameterSlot& slot);
  /// Zeros, or the block that was given for that name.
  StateBlock MomentsOf(const std::string& prefix, const ParameterSlot& slot);
  class InDeviceMemory;
  /// Someone reads the state as it is.
  struct Reader {
    std::shared_ptr<const void> entered;
    device::Event behind;                    ///< the state is written
    std::shared_ptr<ExpectedPieces> pieces;  ///< of all tensors; null where none is so large
  };
  Reader Enter() const;
  /// A tensor of the state, in place; `first` is its first number in the block.
  checkpoint::NamedTensor Show(std::string name, const ParameterSlot& slot, const StateBlock& block,
                               std::uint64_t first, const Reader& reader) const;
  /// The slot has a part that another worker updates in the step that is being applied.
  bool IsOthers(std::size_t slot) const;
  /// The first half of an update.
  Status Begin(const Sums& sums, const ApplyOptions& options, const Division& division);
  Weights& target() { return *buffers_[buffers_.size() > 1 ? 1 - newest_ : newest_]; }
  /// Adds the slot's moments, if they are here.
  void AddMoments(std::size_t slot, const Reader& reader,
                  std::vector<checkpoint::NamedTensor>* tensors) const;
  bool StepsByMuon(const ParameterSlot& slot) const {
    return optimizer_.type == api::OptimizerType::kMuon && slot.role == Role::kHidden;
  }
  void UpdatePiece(const Piece& piece, std::span<const float> gradient, const ApplyOptions& options,
                   Weights& to);
  /// Gathers the statistic of the basis. The basis does not change before TurnBasisOf.
  void GatherPiece(const Piece& piece, std::span<const float> statistic, Weights& to);
  /// Turns the basis by the gathered statistic, and with it all coefficients in the basis.
  Status TurnBasisOf(Weights& to);
  /// Computes the exponents of the next version from the sums that make it.
  void AdvanceScales(std::span<const Piece> pieces, const std::vector<int>& exponents);
  bool exact() const { return accumulation_ == api::Accumulation::kExact; }

  const Layout& layout_;
  StateMemory& memory_;
  const at::Device device_;
  const std::unique_ptr<StateKernels> kernels_;
  const api::Accumulation accumulation_;
  const std::uint64_t microbatches_;
  const int contribution_bits_;
  const bool has_moments_;
  api::Optimizer optimizer_;
  const api::DecoderConfig config_;
  const api::Boundary boundary_;
  const StateBlocks given_;
  std::vector<std::unique_ptr<Weights>> buffers_;  ///< one; two in Delayed mode
  std::size_t newest_ = 0;
  bool newest_held_ = false;  ///< there are weights: initial ones, or a load succeeded
  bool previous_held_ = false;
  Version version_;
  std::vector<StateBlock> first_moments_;   ///< one a slot; empty: others hold them
  std::vector<StateBlock> second_moments_;  ///< the same; empty for what Muon steps
  std::vector<std::size_t> parts_;          ///< the slot of each; none if not divided
  std::optional<Division> division_;        ///< between the halves of an update
  bool skips_ = false;                      ///< that update
  /// kExact: the exponents that belong to the newest version, and those of the one before.
  std::vector<std::int64_t> scales_, previous_scales_;
  std::vector<std::int64_t> next_scales_;  ///< between the halves of an update
  std::int64_t updates_ =
      0;  ///< without the skipped ones: the optimizer's bias correction counts them
  /// Of a state on a device; null where no parameter has a piece.
  std::unique_ptr<PieceDigests> digests_;
  BufferPool copies_;  ///< of the weights that others are given
  Readers readers_;    ///< of all the above, which only Reset, Replace and Apply change
};

}  // namespace swarm::model
