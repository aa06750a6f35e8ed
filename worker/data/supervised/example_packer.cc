#include "worker/data/supervised/example_packer.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/token.h"

namespace swarm::data {

void ExamplePacker::Add(const std::vector<std::int32_t>& example) {
  SWARM_CHECK(!example.empty() && example.size() <= length_, "an example that fits no sequence");
  Sequence sequence;
  const auto fits = open_.lower_bound(example.size());
  if (fits != open_.end()) sequence = std::move(open_.extract(fits).mapped());
  sequence.insert(sequence.end(), example.begin(), example.end());
  if (sequence.size() == length_) return Close(std::move(sequence));
  open_.emplace(length_ - sequence.size(), std::move(sequence));
  if (open_.size() > kOpen) Close(std::move(open_.extract(open_.begin()).mapped()));
}

void ExamplePacker::Close(Sequence sequence) {
  sequence.resize(length_, Token{.learned = false}.Write());
  closed_.insert(closed_.end(), sequence.begin(), sequence.end());
}

Bytes ExamplePacker::Take() {
  for (auto& [room, sequence] : std::exchange(open_, {})) Close(std::move(sequence));
  closed_.shrink_to_fit();
  auto taken = std::make_shared<std::vector<std::int32_t>>(std::exchange(closed_, {}));
  const auto* bytes = reinterpret_cast<const std::byte*>(taken->data());
  return Bytes::Wrap(bytes, taken->size() * sizeof(std::int32_t), taken);
}

}  // namespace swarm::data
