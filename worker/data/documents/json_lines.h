// Files of JSON lines: a document is the text in a field of a line's object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "worker/data/documents/decompress.h"
#include "worker/data/documents/document_handlers.h"

namespace swarm::data {

/// A longer line is an error: files that are no JSON lines must not fill the memory.
inline constexpr std::size_t kLineBytesMax = std::size_t{256} << 20;

/// The text in `field` of a line. Errors, all kInvalidArgument, in one sentence: the line is not
/// UTF-8, or no JSON, with the column; it is no object; the object has no such field (the sentence
/// names those that it has), or the field is no text.
Result<std::string> ReadTextField(std::string_view line, std::string_view field);

/// Gives all lines with their numbers, from 1; lines of white space are none. Errors: those of
/// Decompress and of `take`, which end the reading; kInvalidArgument (a line of more than
/// kLineBytesMax).
Status ReadLines(Compression compression, std::string_view content,
                 const std::function<Status(std::string_view line, std::uint64_t number)>& take);

/// The documents of all lines. Errors: as ReadLines, with those of the handlers.
Status ReadJsonLines(Compression compression, std::string_view content, const std::string& field,
                     const DocumentHandlers& handlers);

}  // namespace swarm::data
