#pragma once

namespace swarm::api {

/// Whether the fields that have their default are written, or left to the reader. Required and
/// Dependent fields (archive.h) are always written.
enum class Defaults { kWritten, kLeftOut };

}  // namespace swarm::api
