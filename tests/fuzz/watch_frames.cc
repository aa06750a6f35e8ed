// What the API server, or a proxy before it, sends in a watch and in a list: any bytes, cut
// anywhere, are the same events or the same refusal.
#include "operator/kube/client/frames.h"
#include "operator/kube/object/object.h"
#include "tests/fuzz/input.h"

namespace swarm {
namespace {

constexpr std::size_t kFrameBytesMax = 1 << 12;

struct Framed {
  std::vector<std::string> frames;
  StatusCode code = StatusCode::kOk;
  bool in_frame = false;
};

Framed Frame(std::string_view bytes, std::size_t chunk_bytes) {
  Framed framed;
  kube::JsonFramer framer(kFrameBytesMax);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(chunk_bytes, bytes.size()))) {
    const Status status = framer.Feed(bytes.substr(0, chunk_bytes), framed.frames);
    framed.code = status.code();
    if (!status.ok()) return framed;
    fuzz::Require(framer.pending_bytes() <= kFrameBytesMax, "an unfinished frame is bounded");
  }
  framed.in_frame = framer.in_frame();
  return framed;
}

}  // namespace
}  // namespace swarm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  const std::size_t chunk_bytes = 1 + input.Byte() % 16;
  const std::string_view bytes = input.rest();
  const Framed whole = Frame(bytes, bytes.size() + 1);
  const Framed cut = Frame(bytes, chunk_bytes);
  fuzz::Require(whole.frames == cut.frames, "frames do not depend on where chunks end");
  fuzz::Require(whole.code == cut.code, "nor does a refusal");
  fuzz::Require(whole.in_frame == cut.in_frame, "nor does what is unfinished");
  for (const std::string& text : whole.frames) {
    const kube::WatchFrame frame = kube::ParseWatchFrame(text, kube::TrimBookkeeping);
    const int answers = frame.event.has_value() + frame.error.has_value() + !frame.problem.ok();
    fuzz::Require(answers == 1, "a frame is an event, an error or a problem");
  }
  (void)kube::ParseListPage(bytes, kube::TrimBookkeeping);
  return 0;
}
