// Which instructions a codec's loops may use. Every path gives the same bytes.
#pragma once

#include <cstdint>

namespace swarm::codec {

enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512 };

/// The best that this processor has.
Isa BestIsa();
/// Whether this processor can run it.
bool HasIsa(Isa isa);
const char* IsaName(Isa isa);

}  // namespace swarm::codec
