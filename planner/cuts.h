// Where a model is cut into stages, for devices that are unlike. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planner/model_costs.h"

namespace swarm::planner {

/// Cuts the layers into as many runs as there are `speeds` (operations a second of each stage), so
/// that the longest of Flops(run) / speed is shortest. A run has at least one layer and begins at
/// one of `allowed` (ascending; empty: anywhere), and `fits(stage, run)` must hold; a part of a run
/// that fits must fit. None: there are no such cuts. A dynamic program, exact.
std::optional<std::vector<Run>> CutModel(const ModelCosts& model, std::span<const double> speeds,
                                         std::span<const std::uint64_t> allowed,
                                         const std::function<bool(std::size_t, Run)>& fits);

}  // namespace swarm::planner
