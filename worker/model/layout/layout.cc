#include "worker/model/layout/layout.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "api/model/boundary.h"

namespace swarm::model {
namespace {

using Shape = std::vector<std::int64_t>;

std::uint64_t CountOf(const Shape& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

/// A parameter that is to be laid out.
struct Parameter {
  std::string name;
  Shape shape;
  Start start = Start::kNormal;
  bool decays = true;
  double rate = 1;
  Role role = Role::kOther;
};

/// A matrix of a layer.
Parameter Hidden(const std::string& name, Shape shape, Start start = Start::kNormal) {
  return {.name = name, .shape = std::move(shape), .start = start, .role = Role::kHidden};
}

Parameter Table(const std::string& name, Shape shape, Start start) {
  return {.name = name, .shape = std::move(shape), .start = start, .role = Role::kTable};
}

Parameter PlainGain(const std::string& name, std::int64_t size) {
  return {name, {size}, Start::kOnes, /*decays=*/false};
}

Parameter Bias(const std::string& name, std::int64_t size) {
  return {name, {size}, Start::kZeros, /*decays=*/false};
}

/// Lays parameters out one after the other.
class Builder {
 public:
  Builder(const api::DecoderConfig& config, const api::Boundary& boundary, const api::Lora& lora,
          Layout& layout)
      : config_(config), boundary_(boundary), lora_(lora), layout_(layout) {}

  void AddLayer(std::int64_t index, bool constrained) {
    const std::string prefix = std::string(kLayersPrefix) + std::to_string(index) + ".";
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t inner = config_.intermediate_size;
    const std::int64_t query = config_.num_attention_heads * config_.head_dim;
    const std::int64_t key_value = config_.num_key_value_heads * config_.head_dim;
    LayerOperands layer{.constrained = constrained};
    layer.attention_norm = AddOperand({ModelGain(prefix + "input_layernorm.weight", hidden)});
    layer.query_key_value =
        AddOperand({Hidden(prefix + "self_attn.q_proj.weight", {query, hidden}),
                    Hidden(prefix + "self_attn.k_proj.weight", {key_value, hidden}),
                    Hidden(prefix + "self_attn.v_proj.weight", {key_value, hidden})});
    if (config_.attention_input_bias) {
      layer.input_bias = AddOperand({Bias(prefix + "self_attn.q_proj.bias", query),
                                     Bias(prefix + "self_attn.k_proj.bias", key_value),
                                     Bias(prefix + "self_attn.v_proj.bias", key_value)});
    }
    if (config_.head_norms) {
      layer.head_norms =
          AddOperand({ModelGain(prefix + "self_attn.q_norm.weight", config_.head_dim),
                      ModelGain(prefix + "self_attn.k_norm.weight", config_.head_dim)});
    }
    layer.attention_output = AddOutput(prefix + "self_attn.o_proj.weight", query, constrained);
    const std::string behind = prefix + "post_attention_layernorm.weight";
    if (config_.post_norms) {
      layer.attention_post_norm = AddOperand({ModelGain(behind, hidden)});
      layer.mlp_norm = AddOperand({ModelGain(prefix + "pre_feedforward_layernorm.weight", hidden)});
    } else {
      layer.mlp_norm = AddOperand({ModelGain(behind, hidden)});
    }
    layer.gate_up = AddOperand({Hidden(prefix + "mlp.gate_proj.weight", {inner, hidden}),
                                Hidden(prefix + "mlp.up_proj.weight", {inner, hidden})});
    layer.down = AddOutput(prefix + "mlp.down_proj.weight", inner, constrained);
    if (config_.post_norms) {
      layer.mlp_post_norm =
          AddOperand({ModelGain(prefix + "post_feedforward_layernorm.weight", hidden)});
    }
    if (lora_.rank > 0) AddAdapters(prefix, layer);
    layout_.layers.push_back(layer);
  }

  void AddSender(std::int64_t before) {
    const std::string prefix = PrefixOf(before);
    BoundaryOperands& halves = layout_.boundaries[before];
    switch (boundary_.codec) {
      case api::BoundaryCodec::kBottleneck:
        halves.norm = AddOperand({PlainGain(prefix + "norm.weight", config_.hidden_size)});
        halves.encoder = AddOperand({Encoder(prefix)});
        break;
      case api::BoundaryCodec::kMaxout:
        halves.norm = AddOperand({PlainGain(prefix + "norm.weight", config_.hidden_size)});
        break;
      case api::BoundaryCodec::kAnchored:
        halves.encoder = AddOperand({Encoder(prefix)});
        break;
      default:
        break;
    }
  }

  void AddReceiver(std::int64_t before) {
    const std::string prefix = PrefixOf(before);
    BoundaryOperands& halves = layout_.boundaries[before];
    switch (boundary_.codec) {
      case api::BoundaryCodec::kBottleneck:
      case api::BoundaryCodec::kMaxout:
        halves.decoder = AddOperand({Decoder(prefix)});
        break;
      case api::BoundaryCodec::kAnchored:
        halves.decoder = AddOperand({Decoder(prefix)});
        AddAnchor(prefix, halves);
        break;
      default:
        break;
    }
  }

  std::size_t AddBasis() {
    Operand basis =
        AddSlot({kBasisName, {config_.hidden_size, Width()}, Start::kBasis, /*decays=*/false});
    basis.wide = true;
    return Use(std::move(basis));
  }

  void AddEmbedding(const Parameter& table) {
    layout_.tables.push_back(AddSlot(table));
    layout_.embedding = layout_.tables.size() - 1;
  }

  /// The table of the embedding, or its trained part.
  Parameter Embedding() const {
    if (!layout_.constrained_embedding) {
      return Table(kEmbeddingName, {config_.vocab_size, config_.hidden_size}, Start::kNormal);
    }
    return Table("model.embed_tokens.coefficients", {config_.vocab_size, Width()},
                 Start::kEmbeddingInBasis);
  }

  /// Adds neighbours (equal in all but the first dimension) to the open group, as one operand.
  std::size_t AddOperand(const std::vector<Parameter>& parts) {
    Operand operand = AddSlot(parts.front());
    for (std::size_t i = 1; i < parts.size(); ++i) operand.shape[0] += AddSlot(parts[i]).shape[0];
    return Use(std::move(operand));
  }

  std::size_t Use(Operand operand) {
    layout_.operands.push_back(std::move(operand));
    return layout_.operands.size() - 1;
  }

  Operand AddSlot(const Parameter& parameter) {
    const bool frozen = lora_.rank > 0 && !adapting_;
    const std::uint64_t index = layout_.groups.size() - (frozen ? 0 : 1);
    std::uint64_t& filled = frozen ? layout_.frozen_count : layout_.groups.back().count;
    const std::uint64_t count = CountOf(parameter.shape);
    const Operand operand{index, filled, parameter.shape, /*wide=*/false, frozen};
    (frozen ? layout_.frozen : layout_.slots)
        .push_back({parameter.name, parameter.shape, index, filled, count, parameter.start,
                    parameter.role, parameter.decays, parameter.rate});
    filled += count;
    return operand;
  }

  /// The weight of one of the model's norms, which begins without influence.
  Parameter ModelGain(const std::string& name, std::int64_t size) const {
    return {name,
            {size},
            config_.unit_offset_gains ? Start::kZeros : Start::kOnes,
            /*decays=*/false};
  }

 private:
  void AddAdapters(const std::string& prefix, LayerOperands& layer) {
    const std::int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    const std::int64_t query = config_.num_attention_heads * config_.head_dim;
    const std::int64_t key_value = config_.num_key_value_heads * config_.head_dim;
    const auto rank = static_cast<std::int64_t>(lora_.rank);
    struct Matrix {
      const char* part;
      const char* name;
      std::int64_t rows, columns;
    };
    const Matrix matrices[] = {
        {"self_attn.", "q_proj", query, hidden},     {"self_attn.", "k_proj", key_value, hidden},
        {"self_attn.", "v_proj", key_value, hidden}, {"self_attn.", "o_proj", hidden, query},
        {"mlp.", "gate_proj", inner, hidden},        {"mlp.", "up_proj", inner, hidden},
        {"mlp.", "down_proj", hidden, inner}};
    static_assert(std::size(matrices) == std::tuple_size_v<decltype(layer.adapters)>);
    adapting_ = true;
    for (std::size_t i = 0; i < std::size(matrices); ++i) {
      const Matrix& matrix = matrices[i];
      if (std::ranges::find(lora_.targets, matrix.name) == lora_.targets.end()) continue;
      const std::string name = prefix + matrix.part + matrix.name;
      const std::size_t down =
          AddOperand({{name + kLoraA, {rank, matrix.columns}, Start::kAdapter}});
      const std::size_t up = AddOperand({{name + kLoraB, {matrix.rows, rank}, Start::kZeros}});
      layer.adapters[i] = AdapterOperands{down, up};
    }
    adapting_ = false;
  }

  std::int64_t Width() const { return api::CoefficientsPerToken(boundary_, config_.hidden_size); }
  static std::string PrefixOf(std::int64_t before) {
    return "boundary." + std::to_string(before) + ".";
  }

  // The whole residual passes through encoder and decoder alone. So they begin as the two sides of
  // one basis, no decay pulls them to zero, and they may need a lower learning rate than layers,
  // whose outputs only add to the residual (docs/boundary_study.md).
  Parameter Encoder(const std::string& prefix) const {
    return {prefix + "encoder.weight",
            {Width(), config_.hidden_size},
            Start::kBasisTransposed,
            /*decays=*/false,
            boundary_.learningRateScale};
  }
  Parameter Decoder(const std::string& prefix) const {
    return {prefix + "decoder.weight",
            {config_.hidden_size, Width()},
            Start::kBasis,
            /*decays=*/false,
            boundary_.learningRateScale};
  }

  /// A matrix [hidden, columns] that writes to the residual.
  std::size_t AddOutput(const std::string& name, std::int64_t columns, bool constrained) {
    if (!constrained) return AddOperand({Hidden(name, {config_.hidden_size, columns})});
    return AddOperand({Hidden(name + ".coefficients", {Width(), columns}, Start::kSpread)});
  }

  void AddAnchor(const std::string& prefix, BoundaryOperands& halves) {
    const auto rank = static_cast<std::int64_t>(boundary_.tableRank);
    const std::string name = prefix + "table.weight";
    halves.table = layout_.tables.size();
    const auto before = static_cast<std::int64_t>(boundary_.anchorTokens) - 1;
    if (before > 0) {
      const std::int64_t row = rank == 0 ? config_.hidden_size : rank;
      halves.context = AddOperand(
          {{prefix + "context.weight", {config_.hidden_size, before * row}, Start::kZeros}});
    }
    if (rank == 0) {
      layout_.tables.push_back(
          AddSlot(Table(name, {config_.vocab_size, config_.hidden_size}, Start::kEmbedding)));
      return;
    }
    layout_.tables.push_back(
        AddSlot(Table(name, {config_.vocab_size, rank}, Start::kEmbeddingInTableBasis)));
    halves.table_factor = AddOperand({{prefix + "table_factor.weight",
                                       {config_.hidden_size, rank},
                                       Start::kTableBasis,
                                       /*decays=*/false}});
  }

  const api::DecoderConfig& config_;
  const api::Boundary& boundary_;
  const api::Lora& lora_;
  bool adapting_ = false;  ///< what is added belongs to an adapter
  Layout& layout_;
};

Status CheckConfig(const api::DecoderConfig& config) {
  const auto reject = [](const std::string& what) { return InvalidArgument("model: " + what); };
  if (config.hidden_size < 1 || config.intermediate_size < 1 || config.vocab_size < 1 ||
      config.num_attention_heads < 1 || config.num_key_value_heads < 1 || config.head_dim < 1) {
    return reject(
        "sizes must be positive (hidden_size, intermediate_size, vocab_size, heads, head_dim)");
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return reject("num_attention_heads " + std::to_string(config.num_attention_heads) +
                  " is no multiple of num_key_value_heads " +
                  std::to_string(config.num_key_value_heads));
  }
  if (config.head_dim % 2 != 0) return reject("head_dim must be even, for the rotary embedding");
  if (!config.layers.empty() &&
      config.layers.size() != static_cast<std::size_t>(config.num_hidden_layers)) {
    return reject("options of " + std::to_string(config.layers.size()) + " layers for " +
                  std::to_string(config.num_hidden_layers));
  }
  return {};
}

Status CheckLora(const api::Lora& lora, const api::Boundary& boundary) {
  if (lora.rank == 0 || !api::IsPartOfModel(boundary)) return {};
  return InvalidArgument("lora: adapters are for plain models, and this one has boundaries");
}

Status CheckBoundary(const api::DecoderConfig& config, const api::Boundary& boundary) {
  const auto hidden = static_cast<std::uint64_t>(config.hidden_size);
  switch (boundary.codec) {
    case api::BoundaryCodec::kBottleneck:
    case api::BoundaryCodec::kMaxout:
      if (boundary.factor > 0 && hidden % boundary.factor == 0) return {};
      return InvalidArgument("boundary: factor " + std::to_string(boundary.factor) +
                             " does not divide hidden_size " + std::to_string(hidden));
    case api::BoundaryCodec::kSubspace:
    case api::BoundaryCodec::kAnchored:
      if (boundary.codec == api::BoundaryCodec::kSubspace && config.post_norms) {
        return InvalidArgument("boundary: norms behind the layers leave the subspace");
      }
      if (boundary.anchorTokens < 1) return InvalidArgument("boundary: an anchor needs a token");
      if (boundary.rank >= 1 && boundary.rank <= hidden && boundary.tableRank <= hidden) return {};
      return InvalidArgument("boundary: ranks are from 1 to hidden_size " + std::to_string(hidden));
    default:
      return {};
  }
}

/// Lays out a slice of a model that has boundaries before those layers.
Layout LayOut(const api::DecoderConfig& config, std::uint64_t stage, std::uint64_t stage_count,
              const Slice& slice, const std::vector<std::uint64_t>& boundaries,
              const api::Boundary& boundary, const api::Lora& lora) {
  Layout layout;
  layout.slice = slice;
  layout.groups.push_back({protocol::GroupIndex(stage), 0});
  const bool subspace = boundary.codec == api::BoundaryCodec::kSubspace;
  layout.constrained_embedding = subspace && (!boundaries.empty() || boundary.constrainLast);
  // The layers behind the last boundary are not constrained: nothing crosses a boundary there.
  const auto constrained = [&](std::int64_t layer) {
    return subspace &&
           (boundary.constrainLast ||
            (!boundaries.empty() && layer < static_cast<std::int64_t>(boundaries.back())));
  };
  const auto lies_before = [&](std::int64_t layer) {
    return std::ranges::binary_search(boundaries, static_cast<std::uint64_t>(layer));
  };
  Builder builder(config, boundary, lora, layout);
  const bool tied = config.tie_word_embeddings;
  if (slice.embedding && !tied) builder.AddEmbedding(builder.Embedding());
  for (std::int64_t i = slice.first; i < slice.first + slice.count; ++i) {
    if (lies_before(i)) {
      if (i > slice.first) builder.AddSender(i);
      builder.AddReceiver(i);
    }
    if (boundary.sharedLayers && i > slice.first && !lies_before(i)) {
      layout.layers.push_back(layout.layers.back());
    } else {
      builder.AddLayer(i, constrained(i));
    }
  }
  if (slice.head) {
    layout.final_norm =
        builder.AddOperand({builder.ModelGain("model.norm.weight", config.hidden_size)});
    if (!tied) {
      layout.head =
          builder.AddOperand({{"lm_head.weight", {config.vocab_size, config.hidden_size}}});
    }
  } else if (lies_before(slice.first + slice.count)) {
    builder.AddSender(slice.first + slice.count);
  }
  if (tied && (slice.embedding || slice.head)) {
    // A frozen table is summed by nobody.
    if (lora.rank == 0) layout.groups.push_back({protocol::GroupIndex(stage_count), 0});
    const Operand table = builder.AddSlot(builder.Embedding());
    if (slice.embedding) {
      layout.embedding = layout.tables.size();
      layout.tables.push_back(table);
    }
    if (slice.head) layout.head = builder.Use(table);
  }
  if (!boundaries.empty()) layout.last_boundary = static_cast<std::int64_t>(boundaries.back());
  if (layout.constrained_embedding && boundary.refreshSteps > 0) {
    layout.groups.push_back({protocol::GroupIndex(stage_count + (tied ? 1 : 0)), 0});
    layout.basis = builder.AddBasis();
  }
  return layout;
}

}  // namespace

std::uint64_t Operand::count() const { return CountOf(shape); }

Result<Layout> ComputeParameterLayout(const api::DecoderConfig& config, std::uint64_t stage,
                                      std::uint64_t stage_count, const api::Boundary& boundary,
                                      const api::Lora& lora) {
  RETURN_IF_ERROR(CheckConfig(config));
  RETURN_IF_ERROR(CheckLora(lora, boundary));
  RETURN_IF_ERROR(CheckBoundary(config, boundary));
  ASSIGN_OR_RETURN(const Slice slice, ComputeSlice(config, stage, stage_count, boundary));
  ASSIGN_OR_RETURN(const auto boundaries, ComputeBoundaryLayers(config, stage_count, boundary));
  return LayOut(config, stage, stage_count, slice, boundaries, boundary, lora);
}

Result<Layout> ComputePartLayout(const api::DecoderConfig& config, std::uint64_t stage,
                                 std::uint64_t stage_count, const Slice& part,
                                 const api::Lora& lora) {
  RETURN_IF_ERROR(CheckConfig(config));
  return LayOut(config, stage, stage_count, part, {}, {}, lora);
}

}  // namespace swarm::model
