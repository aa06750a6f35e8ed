#include "worker/data/huggingface/library.h"

#include "base/module.h"

namespace swarm::data {
namespace {

template <typename Function>
Status Find(const char* name, Function* function) {
  ASSIGN_OR_RETURN(void* const entry, FindInModule("libswarm_huggingface.so", name));
  *function = reinterpret_cast<Function>(entry);
  return Status();
}

Result<HuggingFaceLibrary> OpenLibrary() {
  HuggingFaceLibrary library{};
  RETURN_IF_ERROR(Find("swarm_huggingface_open", &library.open));
  RETURN_IF_ERROR(Find("swarm_huggingface_close", &library.close));
  RETURN_IF_ERROR(Find("swarm_huggingface_vocabulary", &library.vocabulary));
  RETURN_IF_ERROR(Find("swarm_huggingface_id_of", &library.id_of));
  RETURN_IF_ERROR(Find("swarm_huggingface_encode", &library.encode));
  RETURN_IF_ERROR(Find("swarm_huggingface_decode", &library.decode));
  RETURN_IF_ERROR(Find("swarm_huggingface_compile", &library.compile));
  RETURN_IF_ERROR(Find("swarm_huggingface_close_template", &library.close_template));
  RETURN_IF_ERROR(Find("swarm_huggingface_render", &library.render));
  RETURN_IF_ERROR(Find("swarm_huggingface_free_text", &library.free_text));
  RETURN_IF_ERROR(Find("swarm_huggingface_free_ids", &library.free_ids));
  return library;
}

}  // namespace

Result<const HuggingFaceLibrary*> HuggingFaceLibrary::Open() {
  static const auto library = OpenLibrary();
  if (!library.ok()) return library.status();
  return &*library;
}

std::string HuggingFaceLibrary::Take(SwarmHuggingFaceText text) const {
  std::string taken(text.data, text.size);
  free_text(text);
  return taken;
}

Status HuggingFaceLibrary::ToStatus(SwarmHuggingFaceCode code, SwarmHuggingFaceText error) const {
  const std::string text = Take(error);
  if (code == kSwarmHuggingFacePanicked) {
    return Internal("Hugging Face's tokenizers have failed: " + text);
  }
  return InvalidArgument(text);
}

}  // namespace swarm::data
