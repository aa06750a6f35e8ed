// Kubernetes' quantities: 8000000000, 8e9, 8G, 7.5Gi.
#pragma once

#include <optional>
#include <string_view>

namespace swarm::api {

/// A decimal number that is not negative, and perhaps an exponent or a suffix: m, k, M, G, T, P,
/// Ki, Mi, Gi, Ti or Pi. None: the text is something else, or the number does not fit a double.
std::optional<double> ParseQuantity(std::string_view text);

}  // namespace swarm::api
