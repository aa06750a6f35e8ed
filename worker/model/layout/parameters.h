// The parameters of a stage as a list: names, shapes, how each starts, and where it lies in the
// flat buffer of its group.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::model {

/// The name of the embedding table, from which other parameters start.
inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
/// What precedes the number of a layer in the names of its parameters.
inline constexpr std::string_view kLayersPrefix = "model.layers.";
/// The basis of Subspace. In place of its gradient, workers sum a statistic, which clipping does
/// not scale. ParameterStore turns the basis by it.
inline constexpr const char* kBasisName = "boundary.basis";

/// What follows the name of a matrix in those of its adapter: A [rank, n], B [m, rank].
inline constexpr const char* kLoraA = ".lora_A.weight";
inline constexpr const char* kLoraB = ".lora_B.weight";

/// How a parameter begins.
enum class Start {
  kOnes,
  kZeros,
  kNormal,                 ///< normal(0, initializer_range)
  kSpread,                 ///< [k, n]: (basis) (parameter) has the deviation initializer_range
  kEmbedding,              ///< as the embedding
  kEmbeddingInBasis,       ///< [vocab, k]: the embedding's coefficients in the basis
  kEmbeddingInTableBasis,  ///< the same in the basis of the table
  kBasis,                  ///< [hidden, k]: orthonormal columns, the same for all of a job
  kBasisTransposed,        ///< [k, hidden]
  kTableBasis,             ///< [hidden, k]: other orthonormal columns
  kAdapter                 ///< [r, n]: normal, as spread as Kaiming's uniform start of [r, n]
};

/// What a parameter is to an optimizer.
enum class Role {
  kHidden,  ///< a matrix of a layer
  kTable,   ///< has a row for each token of the vocabulary, which is looked up
  kOther    ///< a gain, a bias, an untied head, a half of a boundary
};

/// A parameter and where it lies in its group's flat order, or among the frozen ones.
struct ParameterSlot {
  std::string name;  ///< Hugging Face's; for names of our own see layout.h
  std::vector<std::int64_t> shape;
  std::uint64_t group = 0;   ///< index into groups(); of a frozen one, their number
  std::uint64_t offset = 0;  ///< first element
  std::uint64_t count = 0;   ///< elements
  Start start = Start::kNormal;
  Role role = Role::kOther;
  bool decays = true;  ///< whether weight decay applies
  double rate = 1;     ///< of learning, relative to the optimizer's
};

/// The parameters that one reduce sums. groups()[0] belongs to this stage alone; a second one, if
/// any, is the tied embedding that the first and the last stage share.
struct ParameterGroup {
  protocol::GroupIndex index;  ///< job-wide: the stage's index; stage_count for the tied embedding
  std::uint64_t count = 0;     ///< elements
};

}  // namespace swarm::model
