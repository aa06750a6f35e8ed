#include "worker/model/fold.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "api/format/enum_names.h"
#include "api/model/boundary.h"
#include "worker/model/arithmetic/subspace.h"
#include "worker/model/layout/layout.h"
#include "worker/model/start/start.h"

namespace swarm::model {
namespace {

constexpr std::string_view kCoefficients = ".coefficients";

std::span<const float> FloatsOf(const checkpoint::NamedTensor& tensor) {
  return {reinterpret_cast<const float*>(tensor.data.data()), tensor.data.size() / sizeof(float)};
}

checkpoint::NamedTensor TensorOf(std::string name, std::vector<std::int64_t> shape,
                                 std::span<const float> values) {
  return {std::move(name), checkpoint::ElementType::kF32, std::move(shape),
          Bytes::Copy(values.data(), values.size_bytes())};
}

class Folder {
 public:
  Folder(const api::DecoderConfig& config, std::uint64_t seed, std::uint64_t rank)
      : config_(config), seed_(seed), rank_(rank) {
    if (rank == 0) return;
    first_basis_ = StartBasis(seed, config.hidden_size, static_cast<std::int64_t>(rank));
    basis_ = first_basis_;
  }

  /// Takes the basis that training has turned.
  void TakeBasis(std::span<const float> basis) { basis_.assign(basis.begin(), basis.end()); }

  /// The matrix [hidden, n] of its `coefficients` [rank, n].
  checkpoint::NamedTensor Output(const std::string& name,
                                 const checkpoint::NamedTensor& coefficients) const {
    const std::span<const float> from = FloatsOf(coefficients);
    const std::size_t columns = from.size() / rank_;
    std::vector<float> values(width() * columns);
    std::vector<double> row(columns);
    for (std::size_t i = 0; i < width(); ++i) {
      std::ranges::fill(row, 0.0);
      for (std::size_t j = 0; j < rank_; ++j) {
        const double factor = basis_[i * rank_ + j];
        for (std::size_t c = 0; c < columns; ++c) row[c] += factor * from[j * columns + c];
      }
      std::ranges::copy(row, values.begin() + static_cast<std::ptrdiff_t>(i * columns));
    }
    return TensorOf(name, {config_.hidden_size, static_cast<std::int64_t>(columns)}, values);
  }

  /// The embedding: its fixed part, plus the part that has `coefficients` [vocab, rank].
  checkpoint::NamedTensor Embedding(const checkpoint::NamedTensor& coefficients) const {
    std::vector<float> table = StartEmbedding(seed_, config_);
    std::vector<float> part(rank_);
    for (std::size_t id = 0; id < table.size() / width(); ++id) {
      const std::span<float> row = std::span(table).subspan(id * width(), width());
      const std::span<const float> wanted = FloatsOf(coefficients).subspan(id * rank_, rank_);
      ProjectRow(row, first_basis_, part);
      SubtractExpansion(part, first_basis_, row);
      std::ranges::transform(wanted, part.begin(), std::negate());
      SubtractExpansion(part, basis_, row);
    }
    return TensorOf(kEmbeddingName, {config_.vocab_size, config_.hidden_size}, table);
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(config_.hidden_size); }

  const api::DecoderConfig& config_;
  const std::uint64_t seed_;
  const std::size_t rank_;
  std::vector<float> first_basis_, basis_;
};

/// A stored tensor in float32. Errors: kDataLoss (it is missing, or has another shape).
Result<checkpoint::NamedTensor> ReadSlot(const checkpoint::TensorLookup& weights,
                                         const ParameterSlot& slot) {
  const auto stored = weights(slot.name);
  if (!stored.ok()) return DataLoss(stored.status().message());
  ASSIGN_OR_RETURN(checkpoint::NamedTensor tensor, checkpoint::ConvertToFloat32(*stored));
  if (tensor.shape != slot.shape) {
    return DataLoss(slot.name + " does not have the shape that its config says");
  }
  return tensor;
}

/// The matrix [n, m] plus scale × up [n, r] × down [r, m].
checkpoint::NamedTensor Merged(const checkpoint::NamedTensor& matrix,
                               const checkpoint::NamedTensor& down,
                               const checkpoint::NamedTensor& up, double scale) {
  const std::span<const float> from = FloatsOf(matrix), a = FloatsOf(down), b = FloatsOf(up);
  const auto columns = static_cast<std::size_t>(matrix.shape.back());
  const std::size_t rank = a.size() / columns;
  std::vector<float> values(from.size());
  std::vector<double> row(columns);
  for (std::size_t i = 0; i < from.size() / columns; ++i) {
    std::ranges::copy(from.subspan(i * columns, columns), row.begin());
    for (std::size_t j = 0; j < rank; ++j) {
      const double factor = scale * b[i * rank + j];
      for (std::size_t c = 0; c < columns; ++c) row[c] += factor * a[j * columns + c];
    }
    std::ranges::transform(row, values.begin() + static_cast<std::ptrdiff_t>(i * columns),
                           [](double value) { return static_cast<float>(value); });
  }
  return TensorOf(matrix.name, matrix.shape, values);
}

/// "model.layers.7.mlp..." with the number of the layer that owns the (shared) weights.
std::string OwnerName(const std::string& name, const std::vector<std::uint64_t>& boundaries) {
  const std::string prefix(kLayersPrefix);
  if (!name.starts_with(prefix)) return name;
  const std::size_t end = name.find('.', prefix.size());
  const std::uint64_t layer = std::stoull(name.substr(prefix.size(), end - prefix.size()));
  const auto behind = std::ranges::upper_bound(boundaries, layer);
  const std::uint64_t owner = behind == boundaries.begin() ? 0 : *std::prev(behind);
  return prefix + std::to_string(owner) + name.substr(end);
}

}  // namespace

Result<std::vector<checkpoint::NamedTensor>> FoldWeights(const api::DecoderConfig& config,
                                                         const api::Boundary& boundary,
                                                         std::uint64_t seed,
                                                         const checkpoint::TensorLookup& weights,
                                                         const api::Lora& lora) {
  const bool subspace = boundary.codec == api::BoundaryCodec::kSubspace;
  if (api::IsLearned(boundary.codec) && !subspace) {
    return FailedPrecondition("boundaries of the kind " + std::string(NameOf(boundary.codec)) +
                              " are layers that no plain decoder has; `swarmctl evaluate` and"
                              " `generate` take the checkpoint itself");
  }
  ASSIGN_OR_RETURN(const Layout plain, ComputeParameterLayout(config, 0, 1));
  ASSIGN_OR_RETURN(const Layout held, ComputeParameterLayout(config, 0, 1, boundary, lora));
  // With adapters the model's own weights are the frozen ones.
  const std::vector<ParameterSlot>& stored = lora.rank > 0 ? held.frozen : held.slots;
  const auto adapter_of = [&](const std::string& name, const char* part) {
    const std::string wanted = name.substr(0, name.rfind(".weight")) + part;
    return std::ranges::find(held.slots, wanted, &ParameterSlot::name);
  };
  ASSIGN_OR_RETURN(const auto boundaries, ComputeBoundaryLayers(config, 1, boundary));
  Folder folder(config, seed, subspace ? boundary.rank : 0);
  if (held.basis) {
    ASSIGN_OR_RETURN(const checkpoint::NamedTensor basis, ReadSlot(weights, held.slots.back()));
    folder.TakeBasis(FloatsOf(basis));
  }
  std::vector<checkpoint::NamedTensor> tensors;
  for (const ParameterSlot& slot : plain.slots) {
    const std::string owner = boundary.sharedLayers ? OwnerName(slot.name, boundaries) : slot.name;
    const std::string embedding = "model.embed_tokens" + std::string(kCoefficients);
    const auto source = std::ranges::find_if(stored, [&](const ParameterSlot& candidate) {
      return candidate.name == owner || candidate.name == owner + std::string(kCoefficients) ||
             (owner == kEmbeddingName && candidate.name == embedding);
    });
    if (source == stored.end()) return Internal(slot.name + " has no source");
    ASSIGN_OR_RETURN(checkpoint::NamedTensor tensor, ReadSlot(weights, *source));
    if (const auto down = adapter_of(slot.name, kLoraA); down != held.slots.end()) {
      ASSIGN_OR_RETURN(const auto a, ReadSlot(weights, *down));
      ASSIGN_OR_RETURN(const auto b, ReadSlot(weights, *adapter_of(slot.name, kLoraB)));
      tensor = Merged(tensor, a, b, lora.scale());
    }
    if (source->name == embedding) {
      tensor = folder.Embedding(tensor);
    } else if (source->name.ends_with(kCoefficients)) {
      tensor = folder.Output(slot.name, tensor);
    }
    tensor.name = slot.name;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace swarm::model
