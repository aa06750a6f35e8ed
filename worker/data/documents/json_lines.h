// Files of JSON lines: a document is the text in a field of a line's object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "worker/data/documents/decompress.h"

namespace swarm::data {

/// A longer line is an error: files that are no JSON lines must not fill the memory.
inline constexpr std::size_t kLineBytesMax = std::size_t{256} << 20;

/// What is done with a line, by its number, from 1. An error ends the reading.
struct LineHandlers {
  std::function<Status(std::string text, std::uint64_t line)> document;
  /// The line is bad for this reason, which does not name the line.
  std::function<Status(const Status& reason, std::uint64_t line)> bad;
};

/// The text in `field` of a line. Errors, all kInvalidArgument, in one sentence: the line is not
/// UTF-8, or no JSON, with the column; it is no object; the object has no such field (the sentence
/// names those that it has), or the field is no text.
Result<std::string> ReadTextField(std::string_view line, std::string_view field);

/// Reads all lines; lines of white space are none. Errors: those of Decompress and of the handlers;
/// kInvalidArgument (a line of more than kLineBytesMax).
Status ReadJsonLines(Compression compression, std::string_view content, const std::string& field,
                     const LineHandlers& handlers);

}  // namespace swarm::data
