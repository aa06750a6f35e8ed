// What a reader of documents does with each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace swarm::data {

/// Documents are numbered from 1, by their lines or rows. An error ends the reading.
struct DocumentHandlers {
  std::function<Status(std::string text, std::uint64_t number)> document;
  /// The document is bad for this reason, which does not name its number.
  std::function<Status(const Status& reason, std::uint64_t number)> bad;
};

}  // namespace swarm::data
