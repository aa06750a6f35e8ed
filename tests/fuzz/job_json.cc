// A SwarmJob as JSON: from the API server, and from the trainer to its workers.
#include "api/parse.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  const fuzz::Input input(data, size);
  const auto job = api::FromJsonText(input.rest());
  if (!job.ok()) return 0;
  const std::string text = api::ToJsonText(*job);
  const auto again = api::FromJsonText(text);
  fuzz::Require(again.ok(), "what was written can be read");
  fuzz::Require(api::ToJsonText(*again) == text, "what was read again is the same job");
  return 0;
}
