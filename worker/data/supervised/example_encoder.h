// Examples to the tokens of packed sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/supervised/example.h"
#include "worker/data/supervised/example_packer.h"
#include "worker/data/tokenizer.h"

namespace swarm::data {

struct ExampleOptions {
  api::DataFormat format = api::DataFormat::kPromptCompletion;
  api::DocumentView documents = api::DocumentView::kJoined;
  std::uint64_t tokens_per_sequence = 0;  ///< without the label behind the last
};

/// Encodes examples in batches, so that all cores have work, and packs them. Parts are encoded
/// alone: a model that answers a prompt reads it as it was trained. A prompt has BOS before it and
/// a completion EOS behind it, or a line end as bytes; a chat template writes such marks itself.
/// The first token of an example is not learned.
class ExampleEncoder {
 public:
  /// Told of a bad example; an error ends the encoding.
  using OnBad = std::function<Status(const Status& reason, std::uint64_t number)>;

  ExampleEncoder(const Tokenizer& tokenizer, const ExampleOptions& options, OnBad on_bad)
      : tokenizer_(tokenizer),
        options_(options),
        on_bad_(std::move(on_bad)),
        packer_(options.tokens_per_sequence) {}

  /// The example of a line. Errors: those of `on_bad`, also for earlier examples.
  Status Add(Example example, std::uint64_t number);
  /// Encodes what waits. Errors: as Add.
  Status Flush();
  /// The examples that have been encoded.
  std::uint64_t count() const { return count_; }
  /// The sequences, 4 bytes a token, as worker/token.h writes them.
  Bytes Take() { return packer_.Take(); }

 private:
  using Parts = std::vector<std::vector<std::int32_t>>;
  Status Pack(const Example& example, const Parts& ids, std::size_t first, std::uint64_t number);
  Status EncodeEach();

  const Tokenizer& tokenizer_;
  const ExampleOptions options_;
  const OnBad on_bad_;
  ExamplePacker packer_;
  std::vector<Example> waiting_;
  std::vector<std::uint64_t> numbers_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace swarm::data
