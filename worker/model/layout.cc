#include "worker/model/layout.h"

#include <utility>

namespace swarm::model {
namespace {

using Shape = std::vector<std::int64_t>;

std::uint64_t CountOf(const Shape& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

/// Lays parameters out one after the other.
class Builder {
 public:
  Builder(const api::LlamaConfig& config, Layout& layout) : config_(config), layout_(layout) {}

  void AddLayer(std::int64_t index) {
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t inner = config_.intermediate_size;
    const std::int64_t query = config_.num_attention_heads * config_.head_dim;
    const std::int64_t key_value = config_.num_key_value_heads * config_.head_dim;
    LayerOperands layer;
    layer.attention_norm = AddOperand({{prefix + "input_layernorm.weight", {hidden}}});
    layer.query_key_value = AddOperand({{prefix + "self_attn.q_proj.weight", {query, hidden}},
                                        {prefix + "self_attn.k_proj.weight", {key_value, hidden}},
                                        {prefix + "self_attn.v_proj.weight", {key_value, hidden}}});
    layer.attention_output = AddOperand({{prefix + "self_attn.o_proj.weight", {hidden, query}}});
    layer.mlp_norm = AddOperand({{prefix + "post_attention_layernorm.weight", {hidden}}});
    layer.gate_up = AddOperand({{prefix + "mlp.gate_proj.weight", {inner, hidden}},
                                {prefix + "mlp.up_proj.weight", {inner, hidden}}});
    layer.down = AddOperand({{prefix + "mlp.down_proj.weight", {hidden, inner}}});
    layout_.layers.push_back(layer);
  }

  /// Adds neighbours (equal in all but the first dimension) to the open group, as one operand.
  std::size_t AddOperand(const std::vector<std::pair<std::string, Shape>>& parts) {
    Operand operand = AddSlot(parts.front().first, parts.front().second);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      operand.shape[0] += AddSlot(parts[i].first, parts[i].second).shape[0];
    }
    return Use(std::move(operand));
  }

  std::size_t Use(Operand operand) {
    layout_.operands.push_back(std::move(operand));
    return layout_.operands.size() - 1;
  }

  Operand AddSlot(const std::string& name, const Shape& shape) {
    ParameterGroup& group = layout_.groups.back();
    const std::uint64_t index = layout_.groups.size() - 1;
    const Operand operand{index, group.count, shape};
    layout_.slots.push_back({name, shape, index, group.count, CountOf(shape)});
    group.count += CountOf(shape);
    return operand;
  }

 private:
  const api::LlamaConfig& config_;
  Layout& layout_;
};

Status CheckConfig(const api::LlamaConfig& config) {
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
  return {};
}

}  // namespace

std::uint64_t Operand::count() const { return CountOf(shape); }

Result<Layout> ComputeLayout(const api::LlamaConfig& config, std::uint64_t stage,
                             std::uint64_t stage_count) {
  if (Status status = CheckConfig(config); !status.ok()) return status;
  Result<Slice> slice = ComputeSlice(config, stage, stage_count);
  if (!slice.ok()) return slice.status();

  Layout layout;
  layout.slice = *slice;
  layout.groups.push_back({protocol::GroupIndex(stage), 0});
  Builder builder(config, layout);
  const Shape table_shape{config.vocab_size, config.hidden_size};
  const std::string table_name = "model.embed_tokens.weight";
  const bool tied = config.tie_word_embeddings;
  if (slice->embedding && !tied) layout.embedding = builder.AddSlot(table_name, table_shape);
  for (std::int64_t i = 0; i < slice->count; ++i) builder.AddLayer(slice->first + i);
  if (slice->head) {
    layout.final_norm = builder.AddOperand({{"model.norm.weight", {config.hidden_size}}});
    if (!tied) layout.head = builder.AddOperand({{"lm_head.weight", table_shape}});
  }
  if (tied && (slice->embedding || slice->head)) {
    layout.groups.push_back({protocol::GroupIndex(stage_count), 0});
    const Operand table = builder.AddSlot(table_name, table_shape);
    if (slice->embedding) layout.embedding = table;
    if (slice->head) layout.head = builder.Use(table);
  }
  return layout;
}

}  // namespace swarm::model
