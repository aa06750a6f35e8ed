// Reads sequences of corpora from disks and buckets beside the training, within a bound of memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/data/corpus.h"
#include "worker/data/order/order.h"

namespace swarm::data {

/// The sequences of a corpus: sequence i is the `tokens` ids from i * stride on.
struct Sequences {
  std::shared_ptr<const Corpus> corpus;
  std::uint64_t stride = 0;
  std::uint64_t tokens = 0;

  /// Requires at least `tokens` tokens in the corpus.
  std::uint64_t count() const { return (corpus->token_count() - tokens) / stride + 1; }
};

struct ReaderOptions {
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< of ids, 4 bytes each
  int threads = 8;  ///< reads at once; a bucket takes many, since each waits for an answer
  /// How long a read is tried again before it fails, and how long it waits before each try.
  Duration patience = std::chrono::minutes(10);
  Duration retry = std::chrono::seconds(1);
};

/// What it holds comes in runs of consecutive sequences: one sequence each where the corpora are
/// larger than the cache (more only if sequences are shorter than a request is worth), so that
/// nearly nothing is read that is not drawn; many where all of them fit, so that small corpora take
/// few reads. Runs that were not used for longest go first.
///
/// Threads: a fixed number of them read; all methods are safe from any thread.
class SequenceReader {
 public:
  /// Rows of ids, one after the other.
  using Done = std::function<void(Result<std::vector<std::int32_t>> ids)>;

  /// Counters since the start.
  struct Counts {
    std::uint64_t reads = 0;    ///< that have succeeded
    std::uint64_t retries = 0;  ///< tries that failed, and were repeated
    std::uint64_t late = 0;     ///< sequences that had to be waited for
    std::uint64_t bytes = 0;    ///< that the cache holds now, or has room reserved for
    std::uint64_t bytes_max = 0;
  };

  /// All sources have the same `tokens`. Requires cache_bytes >= CacheBytesMin(tokens).
  SequenceReader(std::vector<Sequences> sources, ReaderOptions options);
  /// Waits for reads in progress. Requests that wait are dropped.
  ~SequenceReader();
  SequenceReader(const SequenceReader&) = delete;
  SequenceReader& operator=(const SequenceReader&) = delete;

  static std::uint64_t CacheBytesMin(std::uint64_t tokens) { return 16 * tokens * sizeof(Id); }

  /// Calls `done` with the rows: at once if all of them are there, else later on a thread of the
  /// reader, before those of ReadAhead. Errors: those of Corpus::Read, with kUnavailable and
  /// kDeadlineExceeded only after `patience`.
  void Read(const std::vector<Place>& rows, Done done);
  /// The same for callers that may wait.
  Result<std::vector<std::int32_t>> Await(const std::vector<Place>& rows);
  /// Tells which sequence is drawn next; they are read in the order of the calls. A failure is
  /// told to the Read that needs the sequence.
  void ReadAhead(const Place& place);
  /// How many sequences of ReadAhead the cache has room for, beside those in use.
  std::uint64_t ahead_max() const;

  Counts counts() const;

 private:
  using Id = std::int32_t;

  /// A call of Read that waits. Owned by the runs that it waits for.
  struct Request {
    std::vector<Id> ids;
    std::size_t missing = 0;  ///< rows
    bool failed = false;
    Done done;
  };
  struct Waiting {
    std::shared_ptr<Request> request;
    std::size_t row = 0;
    std::uint64_t sequence = 0;
  };
  struct Key {
    std::uint32_t source = 0;
    std::uint64_t run = 0;
    auto operator<=>(const Key&) const = default;
  };
  enum class State { kQueued, kReading, kThere };
  struct Run {
    State state = State::kQueued;
    bool urgent = false;  ///< queued there
    std::vector<Id> ids;
    std::vector<Waiting> waiting;
    std::list<Key>::iterator used;  ///< of kThere
  };

  Key KeyOf(const Place& place) const { return {place.source, place.sequence / run_sequences_}; }
  std::uint64_t TokensOf(const Key& key) const;
  std::uint64_t BytesOf(const Key& key) const { return TokensOf(key) * sizeof(Id); }
  void CopyRow(const Key& key, const Run& run, std::uint64_t sequence, Id* out) const;
  void ReadRuns();
  /// The next run to read, for which there is room; the lock is held.
  std::optional<Key> TakeNext();
  bool MakeRoom(std::uint64_t bytes);
  /// Tries until it succeeds, fails for good, or the reader stops.
  Result<std::vector<Id>> ReadRun(const Key& key);
  /// Stores what was read, and completes requests.
  void Settle(const Key& key, Result<std::vector<Id>> ids);

  const std::vector<Sequences> sources_;
  const ReaderOptions options_;
  const std::uint64_t tokens_;
  std::uint64_t run_sequences_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::map<Key, Run> runs_;
  std::list<Key> used_;  // of runs that are there, the longest unused first
  std::deque<Key> urgent_;
  std::deque<Key> ahead_;
  Counts counts_;
  std::vector<std::thread> threads_;  // last: they use all else
};

}  // namespace swarm::data
