// Data that a user brings: any bytes are documents and bad lines, in the order of the file, or an
// error.
#include "worker/data/documents/json_lines.h"

#include "tests/fuzz/input.h"
#include "worker/data/supervised/example.h"
#include "worker/data/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  const auto compression = static_cast<data::Compression>(input.Byte() % 3);
  std::uint64_t last = 0;
  const auto in_order = [&](std::uint64_t line) {
    fuzz::Require(line > last, "lines come in order");
    last = line;
    return Status();
  };
  const Status status =
      data::ReadJsonLines(compression, input.rest(), "text",
                          {.document =
                               [&](std::string text, std::uint64_t line) {
                                 fuzz::Require(!data::FindInvalidUtf8(text), "a document is UTF-8");
                                 return in_order(line);
                               },
                           .bad =
                               [&](const Status& reason, std::uint64_t line) {
                                 fuzz::Require(reason.code() == StatusCode::kInvalidArgument,
                                               "a bad line has a reason");
                                 return in_order(line);
                               }});
  fuzz::Require(status.ok() || status.code() == StatusCode::kDataLoss, "a bad file is kDataLoss");
  fuzz::Require(compression != data::Compression::kNone || status.ok(), "lines are no bad file");
  const auto good_or_bad = [](const Status& line) {
    fuzz::Require(line.ok() || line.code() == StatusCode::kInvalidArgument, "a bad line is told");
  };
  good_or_bad(data::ReadPromptCompletion(input.rest()).status());
  good_or_bad(data::ReadMessages(input.rest()).status());
  return 0;
}
