// The manifest, as a user writes it: any text is a job or a list of what is wrong with it.
#include "api/parse.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  const fuzz::Input input(data, size);
  const auto job = api::ParseYaml(input.rest());
  if (!job.ok()) {
    fuzz::Require(!job.errors().empty(), "a manifest that is refused names a reason");
    return 0;
  }
  const std::string text = api::ToJsonText(*job);
  const auto again = api::FromJsonText(text);
  fuzz::Require(again.ok(), "what was written can be read");
  fuzz::Require(api::ToJsonText(*again) == text, "what was read again is the same job");
  return 0;
}
