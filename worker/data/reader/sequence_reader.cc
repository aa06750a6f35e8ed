#include "worker/data/reader/sequence_reader.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/log.h"

namespace swarm::data {
namespace {

// Tokens of a run where all corpora fit into the cache, and where they do not; a run has at least
// one sequence.
constexpr std::uint64_t kRunTokens = 65536;
constexpr std::uint64_t kRunTokensLarge = 2048;

bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

SequenceReader::SequenceReader(std::vector<Sequences> sources, ReaderOptions options)
    : sources_(std::move(sources)), options_(options), tokens_(sources_.at(0).tokens) {
  SWARM_CHECK(options_.cache_bytes >= CacheBytesMin(tokens_), "a cache without room for a row");
  std::uint64_t tokens = 0;
  bool all_there = true;
  for (const Sequences& source : sources_) {
    if (source.corpus->in_memory()) continue;
    all_there = false;
    tokens += source.corpus->token_count();
  }
  // A little more than half, as runs overlap by a token, and a read reserves room.
  const bool fits = tokens * sizeof(Id) <= options_.cache_bytes * 5 / 8;
  const std::uint64_t run_tokens = std::min(fits ? kRunTokens : kRunTokensLarge,
                                            options_.cache_bytes / sizeof(Id) / 16);
  run_sequences_ = std::max<std::uint64_t>(1, run_tokens / tokens_);
  for (int i = 0; i < options_.threads && !all_there; ++i) {
    threads_.emplace_back([this] { ReadRuns(); });
  }
}

SequenceReader::~SequenceReader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::uint64_t SequenceReader::ahead_max() const {
  const std::uint64_t run_bytes = (run_sequences_ * tokens_) * sizeof(Id);
  return std::max<std::uint64_t>(1, options_.cache_bytes / 2 / run_bytes);
}

SequenceReader::Counts SequenceReader::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::uint64_t SequenceReader::TokensOf(const Key& key) const {
  const Sequences& source = sources_[key.source];
  const std::uint64_t first = key.run * run_sequences_;
  const std::uint64_t last = std::min(first + run_sequences_, source.count()) - 1;
  return (last - first) * source.stride + tokens_;
}

void SequenceReader::CopyRow(const Key& key, const Run& run, std::uint64_t sequence,
                             Id* out) const {
  const std::uint64_t from =
      (sequence - key.run * run_sequences_) * sources_[key.source].stride;
  std::copy_n(run.ids.begin() + static_cast<std::ptrdiff_t>(from), tokens_, out);
}

void SequenceReader::Read(const std::vector<Place>& rows, Done done) {
  const auto request = std::make_shared<Request>();
  request->ids.resize(rows.size() * tokens_);
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Id* out = request->ids.data() + row * tokens_;
      const auto& [source, sequence] = rows[row];
      SWARM_CHECK(sequence < sources_[source].count(), "a sequence beyond the corpus");
      if (sources_[source].corpus->in_memory()) {
        const auto ids =
            sources_[source].corpus->Read(sequence * sources_[source].stride, tokens_);
        std::ranges::copy(*ids, out);
        continue;
      }
      const Key key = KeyOf(rows[row]);
      Run& run = runs_[key];
      if (run.state == State::kThere) {
        used_.splice(used_.end(), used_, run.used);
        CopyRow(key, run, sequence, out);
        continue;
      }
      run.waiting.push_back({request, row, sequence});
      ++request->missing;
      ++counts_.late;
      if (run.state == State::kQueued && !std::exchange(run.urgent, true)) urgent_.push_back(key);
    }
    if (request->missing > 0) {
      request->done = std::move(done);
      wake_.notify_all();
      return;
    }
  }
  done(std::move(request->ids));
}

Result<std::vector<std::int32_t>> SequenceReader::Await(const std::vector<Place>& rows) {
  std::promise<Result<std::vector<Id>>> promise;
  Read(rows, [&](Result<std::vector<Id>> ids) { promise.set_value(std::move(ids)); });
  return promise.get_future().get();
}

void SequenceReader::ReadAhead(const Place& place) {
  if (sources_[place.source].corpus->in_memory()) return;
  const std::lock_guard lock(mutex_);
  const Key key = KeyOf(place);
  const auto [run, fresh] = runs_.try_emplace(key);
  if (fresh) {
    ahead_.push_back(key);
    wake_.notify_one();
  } else if (run->second.state == State::kThere) {
    used_.splice(used_.end(), used_, run->second.used);
  }
}

bool SequenceReader::MakeRoom(std::uint64_t bytes) {
  while (counts_.bytes + bytes > options_.cache_bytes && !used_.empty()) {
    counts_.bytes -= BytesOf(used_.front());
    runs_.erase(used_.front());
    used_.pop_front();
  }
  return counts_.bytes + bytes <= options_.cache_bytes;
}

std::optional<SequenceReader::Key> SequenceReader::TakeNext() {
  for (std::deque<Key>* queue : {&urgent_, &ahead_}) {
    while (!queue->empty()) {
      const Key key = queue->front();
      const auto run = runs_.find(key);
      // It may have been in both queues.
      if (run == runs_.end() || run->second.state != State::kQueued) {
        queue->pop_front();
        continue;
      }
      // What waits for room waits for other reads to end: they need the rest.
      if (!MakeRoom(BytesOf(key))) return std::nullopt;
      queue->pop_front();
      run->second.state = State::kReading;
      counts_.bytes += BytesOf(key);
      counts_.bytes_max = std::max(counts_.bytes_max, counts_.bytes);
      return key;
    }
  }
  return std::nullopt;
}

void SequenceReader::ReadRuns() {
  while (true) {
    std::optional<Key> key;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || (key = TakeNext()).has_value(); });
      if (stopping_) return;
    }
    Settle(*key, ReadRun(*key));
  }
}

Result<std::vector<std::int32_t>> SequenceReader::ReadRun(const Key& key) {
  const Sequences& source = sources_[key.source];
  const Timepoint begin = Clock::now();
  while (true) {
    auto ids = source.corpus->Read(key.run * run_sequences_ * source.stride, TokensOf(key));
    if (ids.ok() || !MayPass(ids.status())) return ids;
    const Duration waited = Clock::now() - begin;
    if (waited >= options_.patience) {
      return ids.status().WithContext("the data could not be read for " +
                                      std::to_string(static_cast<int>(ToSeconds(waited))) + " s");
    }
    std::unique_lock lock(mutex_);
    if (counts_.retries++ == 0) LOG_WARN("reading again: {}", ids.status().message());
    if (wake_.wait_for(lock, options_.retry, [&] { return stopping_; })) return ids;
  }
}

void SequenceReader::Settle(const Key& key, Result<std::vector<Id>> ids) {
  std::vector<std::shared_ptr<Request>> complete;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    const auto run = runs_.find(key);
    const std::vector<Waiting> waiting = std::exchange(run->second.waiting, {});
    if (ids.ok()) {
      ++counts_.reads;
      run->second.ids = *std::move(ids);
      run->second.state = State::kThere;
      run->second.used = used_.insert(used_.end(), key);
    }
    for (const auto& [request, row, sequence] : waiting) {
      if (ids.ok()) CopyRow(key, run->second, sequence, request->ids.data() + row * tokens_);
      --request->missing;
      if (request->failed) continue;
      request->failed = !ids.ok();
      if (request->failed || request->missing == 0) complete.push_back(request);
    }
    if (!ids.ok()) {
      counts_.bytes -= BytesOf(key);
      runs_.erase(run);  // the next one who wants it tries again
    }
  }
  wake_.notify_all();
  for (const auto& request : complete) {
    request->done(request->failed ? Result<std::vector<Id>>(ids.status())
                                  : std::move(request->ids));
  }
}

}  // namespace swarm::data
