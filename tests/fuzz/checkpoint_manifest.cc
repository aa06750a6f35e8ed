// The manifest of a checkpoint, from a storage that others may write to.
#include "tests/fuzz/input.h"
#include "worker/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  const auto manifest = checkpoint::DecodeManifest(Bytes::Copy(data, size));
  if (!manifest.ok()) return 0;
  const auto text = checkpoint::EncodeManifest(*manifest);
  fuzz::Require(text.ok(), "what was read can be written");
  const auto again = checkpoint::DecodeManifest(*text);
  fuzz::Require(again.ok(), "what was written can be read");
  fuzz::Require(checkpoint::EncodeManifest(*again)->text() == text->text(),
                "reading again changes nothing");
  return 0;
}
