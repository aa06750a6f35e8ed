#include "worker/model/start/start.h"

#include <algorithm>
#include <cmath>

#include "worker/model/arithmetic/init.h"
#include "worker/model/arithmetic/subspace.h"

namespace swarm::model {
namespace {

constexpr const char* kTableBasisName = "boundary.table_basis";

/// The rows of the embedding in a basis.
void FillProjected(std::uint64_t seed, const api::DecoderConfig& config,
                   std::span<const float> basis, std::span<float> values) {
  const std::vector<float> embedding = StartEmbedding(seed, config);
  const auto width = static_cast<std::size_t>(config.hidden_size);
  const std::size_t rank = basis.size() / width;
  for (std::size_t row = 0; row < embedding.size() / width; ++row) {
    ProjectRow(std::span(embedding).subspan(row * width, width), basis,
               values.subspan(row * rank, rank));
  }
}

}  // namespace

std::vector<float> StartBasis(std::uint64_t seed, std::int64_t hidden_size, std::int64_t rank) {
  return SeededBasis(seed, kBasisName, static_cast<std::size_t>(hidden_size),
                     static_cast<std::size_t>(rank));
}

std::vector<float> StartEmbedding(std::uint64_t seed, const api::DecoderConfig& config) {
  std::vector<float> table(static_cast<std::size_t>(config.vocab_size * config.hidden_size));
  FillNormal(seed, kEmbeddingName, config.initializer_range, table);
  return table;
}

void FillStart(std::uint64_t seed, const api::DecoderConfig& config, const ParameterSlot& slot,
               std::span<float> values) {
  const auto width = static_cast<std::size_t>(config.hidden_size);
  const auto basis = [&](const char* name, std::int64_t rank) {
    return SeededBasis(seed, name, width, static_cast<std::size_t>(rank));
  };
  switch (slot.start) {
    case Start::kOnes:
      std::ranges::fill(values, 1.0F);
      return;
    case Start::kZeros:
      std::ranges::fill(values, 0.0F);
      return;
    case Start::kNormal:
      FillNormal(seed, slot.name, config.initializer_range, values);
      return;
    case Start::kAdapter:
      FillNormal(seed, slot.name, 1 / std::sqrt(3 * static_cast<double>(slot.shape.back())),
                 values);
      return;
    case Start::kSpread: {
      const double spread = std::sqrt(static_cast<double>(config.hidden_size) /
                                      static_cast<double>(slot.shape.front()));
      FillNormal(seed, slot.name, config.initializer_range * spread, values);
      return;
    }
    case Start::kEmbedding:
      std::ranges::copy(StartEmbedding(seed, config), values.begin());
      return;
    case Start::kEmbeddingInBasis:
      FillProjected(seed, config, basis(kBasisName, slot.shape.back()), values);
      return;
    case Start::kEmbeddingInTableBasis:
      FillProjected(seed, config, basis(kTableBasisName, slot.shape.back()), values);
      return;
    case Start::kBasis:
      std::ranges::copy(basis(kBasisName, slot.shape.back()), values.begin());
      return;
    case Start::kTableBasis:
      std::ranges::copy(basis(kTableBasisName, slot.shape.back()), values.begin());
      return;
    case Start::kBasisTransposed: {
      const auto rank = static_cast<std::size_t>(slot.shape.front());
      const std::vector<float> columns = basis(kBasisName, slot.shape.front());
      for (std::size_t i = 0; i < width; ++i) {
        for (std::size_t j = 0; j < rank; ++j) values[j * width + i] = columns[i * rank + j];
      }
      return;
    }
  }
}

}  // namespace swarm::model
