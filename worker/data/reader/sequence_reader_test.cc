#include "worker/data/reader/sequence_reader.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>

#include "base/rng.h"
#include "base/testing/temporary_folder.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kTokens = 65;  // L + 1

// A storage whose reads of parts fail as often as it is told, and count.
class FaultyStorage final : public storage::Storage {
 public:
  struct Faults {
    std::atomic<std::uint64_t> reads = 0;
    std::atomic<std::uint64_t> failing = 0;  // of 1000
    std::atomic<std::uint64_t> bytes = 0;    // read
  };

  FaultyStorage(std::unique_ptr<Storage> real, Faults* faults)
      : real_(std::move(real)), faults_(faults) {}

  Result<Bytes> ReadRange(const std::string& name, std::uint64_t offset,
                          std::uint64_t size) override {
    const std::uint64_t n = faults_->reads++;
    if (Rng(n).Below(1000) < faults_->failing) return Unavailable("an injected fault");
    faults_->bytes += size;
    return real_->ReadRange(name, offset, size);
  }
  Result<Bytes> Read(const std::string& name) override { return real_->Read(name); }
  Result<std::uint64_t> Size(const std::string& name) override { return real_->Size(name); }
  using Storage::Write;
  using Storage::WriteIfAbsent;
  Status Write(const std::string& name, std::span<const Bytes> pieces) override {
    return real_->Write(name, pieces);
  }
  Status WriteIfAbsent(const std::string& name, std::span<const Bytes> pieces) override {
    return real_->WriteIfAbsent(name, pieces);
  }
  Result<std::vector<storage::StoredFile>> ListFiles(const std::string& prefix) override {
    return real_->ListFiles(prefix);
  }
  Result<std::vector<std::string>> ListFolders() override { return real_->ListFolders(); }
  Status Remove(const std::string& name) override { return real_->Remove(name); }
  Status RemoveFolder(const std::string& name) override { return real_->RemoveFolder(name); }
  std::string Describe(const std::string& name) const override { return real_->Describe(name); }

 private:
  const std::unique_ptr<Storage> real_;
  Faults* const faults_;
};

class SequenceReaderTest : public testing::Test {
 protected:
  // Shards of 50,000 tokens in all; the token at position i is i % 50021 % 60000.
  std::shared_ptr<const Corpus> Open(std::uint64_t tokens = 50'000) {
    std::vector<std::uint16_t> ids;
    for (std::uint64_t i = 0; i < tokens; ++i) {
      ids.push_back(static_cast<std::uint16_t>(i % 50021));
      if (ids.size() < 20'000 && i + 1 < tokens) continue;
      const std::string name = "data/" + std::to_string(100 + i / 20'000) + ".bin";
      folder_.Put(name, std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 2));
      ids.clear();
    }
    auto corpus = Corpus::Open({.uri = folder_ / "data",
                                .vocab_size = 60'000,
                                .tokens_per_sequence = kTokens,
                                .open = [this](const std::string& uri, const api::Storage& options)
                                    -> Result<std::unique_ptr<storage::Storage>> {
                                  ASSIGN_OR_RETURN(auto real,
                                                   storage::Storage::Open(uri, options));
                                  return std::unique_ptr<storage::Storage>(
                                      std::make_unique<FaultyStorage>(std::move(real), &faults_));
                                }});
    EXPECT_TRUE(corpus.ok()) << corpus.status().ToString();
    faults_.bytes = 0;
    return *std::move(corpus);
  }
  static Sequences Of(std::shared_ptr<const Corpus> corpus) {
    return {std::move(corpus), kTokens - 1, kTokens};
  }
  static void ExpectSequence(const std::vector<std::int32_t>& ids, std::uint64_t sequence,
                             std::size_t row = 0) {
    for (std::uint64_t i = 0; i < kTokens; ++i) {
      const auto expected = static_cast<std::int32_t>((sequence * (kTokens - 1) + i) % 50021);
      ASSERT_EQ(ids[row * kTokens + i], expected) << "sequence " << sequence << ", token " << i;
    }
  }

  TemporaryFolder folder_;
  FaultyStorage::Faults faults_;
};

TEST_F(SequenceReaderTest, EachSequenceOfTwoEpochsIsReadInAnyOrderWithinTheBound) {
  const auto corpus = Open(400'000);
  constexpr std::uint64_t kCacheBytes = 100'000;  // of 1,600,000
  SequenceReader reader({Of(corpus)}, {.cache_bytes = kCacheBytes, .threads = 4});
  const std::uint64_t count = Of(corpus).count();
  ASSERT_EQ(count, 6249u);
  const auto order = Order::Make(5, {{.sequences = count}});
  const std::uint64_t horizon = std::min<std::uint64_t>(16, reader.ahead_max());
  for (std::uint64_t draw = 0; draw < 2 * count; ++draw) {
    reader.ReadAhead(order->At(draw + horizon));
    const Place place = order->At(draw);
    const auto ids = reader.Await({place});
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    ExpectSequence(*ids, place.sequence);
  }
  EXPECT_LE(reader.counts().bytes_max, kCacheBytes);
  EXPECT_GT(reader.counts().bytes_max, kCacheBytes / 2);
}

TEST_F(SequenceReaderTest, ACorpusThatFitsIsReadOnce) {
  const auto corpus = Open();
  SequenceReader reader({Of(corpus)}, {.cache_bytes = 1 << 20, .threads = 2});
  const std::uint64_t count = Of(corpus).count();
  for (std::uint64_t draw = 0; draw < 3 * count; ++draw) {
    const std::uint64_t sequence = draw * 331 % count;
    ExpectSequence(*reader.Await({{0, sequence}}), sequence);
  }
  EXPECT_LT(reader.counts().reads, 10u);
  EXPECT_LT(faults_.bytes, 110'000u);
}

TEST_F(SequenceReaderTest, ALargeCorpusIsNotReadBesideWhatIsDrawn) {
  const auto corpus = Open(400'000);
  SequenceReader reader({Of(corpus)}, {.cache_bytes = 64 * kTokens * 4, .threads = 1});
  ASSERT_TRUE(reader.Await({{0, 10}, {0, 3000}}).ok());
  EXPECT_LE(faults_.bytes, 2 * 4 * kTokens * 2);
}

TEST_F(SequenceReaderTest, RowsOfSeveralSourcesComeTogether) {
  const auto shards = Open();
  std::shared_ptr<const Corpus> text =
      *Corpus::Open({.uri = folder_.Put("a.txt", std::string(kTokens, 'x')),
                     .vocab_size = 256,
                     .tokens_per_sequence = kTokens,
                     .tokenizer = MakeByteTokenizer()});
  SequenceReader reader({Of(text), Of(shards)}, {});
  const auto ids = reader.Await({{1, 7}, {0, 0}, {1, 600}});
  ASSERT_TRUE(ids.ok()) << ids.status().ToString();
  ExpectSequence(*ids, 7);
  EXPECT_EQ((*ids)[kTokens], 'x');
  ExpectSequence(*ids, 600, 2);
}

TEST_F(SequenceReaderTest, ReadsThatFailAreTriedAgainAndNobodyHearsOfIt) {
  const auto corpus = Open();
  faults_.failing = 300;
  SequenceReader reader(
      {Of(corpus)},
      {.cache_bytes = 64 * kTokens * 4, .threads = 4, .retry = std::chrono::milliseconds(1)});
  for (std::uint64_t sequence = 0; sequence < 700; ++sequence) {
    const auto ids = reader.Await({{0, sequence}});
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    ExpectSequence(*ids, sequence);
  }
  EXPECT_GT(reader.counts().retries, 20u);
}

TEST_F(SequenceReaderTest, AStorageThatStaysAwayFailsTheReadThatNeedsIt) {
  const auto corpus = Open();
  faults_.failing = 1000;
  SequenceReader reader({Of(corpus)},
                        {.patience = std::chrono::milliseconds(5),
                         .retry = std::chrono::milliseconds(1)});
  const Status status = reader.Await({{0, 3}, {0, 700}}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("could not be read for"), HasSubstr("injected")));
  faults_.failing = 0;
  ExpectSequence(*reader.Await({{0, 3}}), 3);
}

TEST_F(SequenceReaderTest, AnIdThatTheModelDoesNotHaveIsNamedWhenItIsRead) {
  std::vector<std::uint16_t> ids(200'000, 1);
  ids[100'001] = 60'001;  // between the places of the sample
  const std::string path = folder_.Put(
      "data/100.bin", std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 2));
  std::shared_ptr<const Corpus> corpus =
      *Corpus::Open({.uri = path, .vocab_size = 60'000, .tokens_per_sequence = kTokens});
  SequenceReader reader({Of(corpus)}, {.cache_bytes = 64 * kTokens * 4, .threads = 1});
  reader.ReadAhead({0, 100'001 / (kTokens - 1)});
  EXPECT_TRUE(reader.Await({{0, 0}}).ok());
  const Status status = reader.Await({{0, 100'001 / (kTokens - 1)}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(path), HasSubstr("id 60001 at position 100001")));
}

TEST_F(SequenceReaderTest, AReaderThatEndsDropsWhatWaits) {
  const auto corpus = Open();
  faults_.failing = 1000;
  SequenceReader reader({Of(corpus)}, {.retry = std::chrono::hours(1)});
  reader.Read({{0, 0}}, [](const auto&) { ADD_FAILURE() << "called"; });
}

}  // namespace
}  // namespace swarm::data
