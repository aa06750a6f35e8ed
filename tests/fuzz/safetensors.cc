// A file of a checkpoint or of Hugging Face: any bytes are tensors within the file, or an error.
#include "worker/checkpoint/safetensors.h"

#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  Bytes file;
  if (input.Byte() % 4 == 0) {
    file = Bytes::Copy(input.rest().data(), input.rest().size());
  } else {
    // The length in front is right, so that the reader parses the header.
    const std::string_view data_bytes = input.Take(input.Byte() % 64);
    const std::string_view header = input.rest();
    file = Bytes::Make(8 + header.size() + data_bytes.size(), [&](std::byte* to) {
      for (int i = 0; i < 8; ++i) to[i] = static_cast<std::byte>(header.size() >> (8 * i));
      std::copy_n(reinterpret_cast<const std::byte*>(header.data()), header.size(), to + 8);
      std::copy_n(reinterpret_cast<const std::byte*>(data_bytes.data()), data_bytes.size(),
                  to + 8 + header.size());
    });
  }
  const auto tensors = checkpoint::ReadSafetensors(file);
  if (!tensors.ok()) {
    fuzz::Require(tensors.status().code() == StatusCode::kDataLoss, "a bad file is kDataLoss");
    return 0;
  }
  std::vector<checkpoint::NamedTensor> found;
  for (const std::string& name : tensors->names()) {
    auto tensor = tensors->Lookup(name);
    if (!tensor.ok()) return 0;  // of a type that we do not compute with
    std::uint64_t sum = 0;
    for (const char byte : tensor->data.text()) sum += static_cast<unsigned char>(byte);
    fuzz::Require(sum <= 255 * tensor->data.size(), "a tensor lies within the file");
    found.push_back(*std::move(tensor));
  }
  const auto bytes = checkpoint::WriteSafetensors(found, tensors->metadata());
  fuzz::Require(bytes.ok(), "what was read can be written");
  fuzz::Require(checkpoint::ReadSafetensors(*bytes).ok(), "what was written can be read");
  return 0;
}
