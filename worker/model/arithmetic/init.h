// Initial weights that are a function of (seed, name of the tensor). Pure; torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace swarm::model {

/// Fills `values` with draws from normal(0, deviation). Element i depends on (seed, name, i) alone,
/// to the last bit on every machine: it is computed with IEEE basic operations only, as the C
/// library's log and cos may differ in their last bit between instruction sets.
void FillNormal(std::uint64_t seed, std::string_view name, double deviation,
                std::span<float> values);

}  // namespace swarm::model
