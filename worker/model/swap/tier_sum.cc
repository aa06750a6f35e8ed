#include "worker/model/swap/tier_sum.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/checkpoint/pieces.h"
#include "worker/model/exact_sums.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::model {
namespace {

/// Elements of a parameter that are in memory at once.
constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 21;
/// Numbers that a thread adds at once.
constexpr std::int64_t kAdded = std::int64_t{1} << 16;
/// Blocks of a norm that a thread sums at once.
constexpr std::int64_t kBlocks = 16;

/// sum[i] += values[i], on all threads.
template <typename T>
void AddTo(std::span<T> sum, std::span<const T> values) {
  at::parallel_for(0, std::ssize(sum), kAdded, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      sum[i] += values[i];
    }
  });
}

/// The square of a norm, of numbers that come a part after the other. All threads sum blocks.
template <typename T>
class Squares {
 public:
  void Add(std::span<const T> values) {
    while (!values.empty()) {
      // Blocks begin where they do in the whole.
      if (rest_.empty() && values.size() >= optim::kNormBlock) {
        of_blocks_.resize(values.size() / optim::kNormBlock);
        at::parallel_for(0, std::ssize(of_blocks_), kBlocks, [&](std::int64_t i, std::int64_t end) {
          for (; i < end; ++i) {
            const auto block = static_cast<std::size_t>(i);
            of_blocks_[block] =
                optim::SquaredBlock(values.subspan(block * optim::kNormBlock, optim::kNormBlock));
          }
        });
        for (const double of_block : of_blocks_) total_ += of_block;
        values = values.subspan(of_blocks_.size() * optim::kNormBlock);
        continue;
      }
      const std::size_t n = std::min(values.size(), optim::kNormBlock - rest_.size());
      rest_.insert(rest_.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
      values = values.subspan(n);
      if (rest_.size() == optim::kNormBlock) TakeRest();
    }
  }
  double Take() {
    if (!rest_.empty()) TakeRest();
    return std::exchange(total_, 0);
  }

 private:
  void TakeRest() {
    total_ += optim::SquaredBlock(std::span<const T>(rest_));
    rest_.clear();
  }

  std::vector<T> rest_;
  std::vector<double> of_blocks_;
  double total_ = 0;
};

/// Those of the whole pieces.
void AddDigests(std::span<const std::byte> bytes, std::vector<Digest>* digests) {
  const std::size_t before = digests->size();
  digests->resize(before + bytes.size() / checkpoint::kPieceBytes);
  at::parallel_for(before, digests->size(), 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const auto piece = static_cast<std::size_t>(i);
      (*digests)[piece] = ComputeDigest(
          bytes.subspan((piece - before) * checkpoint::kPieceBytes, checkpoint::kPieceBytes));
    }
  });
}

}  // namespace

Result<TierSum> TierSum::Make(tier::Space& space, std::span<const ParameterSlot> slots,
                              std::uint64_t group, Element element) {
  TierSum sum(space, group, element);
  std::uint64_t count = 0;
  for (const ParameterSlot& slot : slots) {
    if (slot.group != group) continue;
    SWARM_CHECK(slot.offset == count, slot.name + " does not follow the one before");
    sum.parts_.push_back({slot.offset, slot.count});
    count += slot.count;
  }
  ASSIGN_OR_RETURN(sum.extent_, space.Take(count * sum.width()));
  return sum;
}

std::size_t TierSum::IndexOf(std::uint64_t offset) const {
  const auto found = std::ranges::lower_bound(parts_, offset, {}, &Part::offset);
  SWARM_CHECK(found != parts_.end() && found->offset == offset, "no parameter begins there");
  return static_cast<std::size_t>(found - parts_.begin());
}

template <typename T, typename Body>
Status TierSum::Change(Part& part, Body change) {
  tier::Tier& tier = space_->tier();
  const auto memory =
      tier::MakeMemory(std::min(kAtOnce, part.count) * sizeof(T) + 2 * tier::kBlock);
  for (std::uint64_t at = 0; at < part.count; at += kAtOnce) {
    const std::uint64_t n = std::min(kAtOnce, part.count - at);
    const std::uint64_t begin = (part.offset + at) * sizeof(T), end = begin + n * sizeof(T);
    // Whole blocks are written. What others have in the first and the last of them stays.
    const std::uint64_t from = begin / tier::kBlock * tier::kBlock;
    const std::uint64_t to = std::min(tier::RoundUpToBlocks(end), bytes());
    const std::span blocks(memory.get(), to - from);
    const auto read = [&](std::uint64_t first, std::uint64_t last) {
      return first == last
                 ? Status()
                 : tier.Read(extent_->offset() + first, blocks.subspan(first - from, last - first));
    };
    if (part.written) {
      RETURN_IF_ERROR(read(from, to));
    } else {
      std::ranges::fill(blocks, std::byte{0});
      RETURN_IF_ERROR(read(from, begin));
      RETURN_IF_ERROR(read(end, to));
    }
    change(std::span(reinterpret_cast<T*>(blocks.data() + (begin - from)), n), at);
    RETURN_IF_ERROR(tier.Write(extent_->offset() + from, blocks));
  }
  part.written = true;
  return {};
}

Status TierSum::Patch(std::uint64_t begin, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const std::uint64_t from = begin / tier::kBlock * tier::kBlock;
  std::vector<std::byte> block(std::min(tier::kBlock, this->bytes() - from));
  RETURN_IF_ERROR(space_->tier().Read(extent_->offset() + from, block));
  std::ranges::copy(bytes, block.begin() + static_cast<std::ptrdiff_t>(begin - from));
  return space_->tier().Write(extent_->offset() + from, block);
}

Status TierSum::Add(std::uint64_t offset, const Bytes& floats, Transit* leaving) {
  Part& part = parts_[IndexOf(offset)];
  SWARM_CHECK(floats.size() == part.count * sizeof(float), "another parameter's gradients");
  if (part.written) {
    const std::span values(reinterpret_cast<const float*>(floats.data()), part.count);
    return Change<float>(part, [&](std::span<float> sum, std::uint64_t at) {
      AddTo(sum, values.subspan(at, sum.size()));
    });
  }
  const std::uint64_t begin = offset * sizeof(float), end = begin + floats.size();
  // Blocks that are all of this parameter; nothing follows the last one of the sum.
  const std::uint64_t first = std::min(tier::RoundUpToBlocks(begin), end);
  const std::uint64_t last =
      end == bytes() ? end : std::max(first, end / tier::kBlock * tier::kBlock);
  RETURN_IF_ERROR(Patch(begin, floats.span().first(first - begin)));
  RETURN_IF_ERROR(Patch(last, floats.span().subspan(last - begin)));
  if (first < last) {
    leaving->Write(space_->tier(), extent_->offset() + first,
                   floats.Slice(first - begin, last - first));
  }
  part.written = true;
  return {};
}

template <typename T, typename Body>
Status TierSum::AddFrom(std::uint64_t offset, const TierSum& floats, Body add) {
  std::vector<float> values;
  Status status;
  RETURN_IF_ERROR(Change<T>(parts_[IndexOf(offset)], [&](std::span<T> sum, std::uint64_t at) {
    values.resize(sum.size());
    if (status.ok()) {
      status = floats.space_->tier().Read(floats.extent_->offset() + (offset + at) * sizeof(float),
                                          std::as_writable_bytes(std::span(values)));
    }
    if (status.ok()) add(std::span<const float>(values), sum);
  }));
  return status;
}

Status TierSum::Add(std::uint64_t offset, const TierSum& floats) {
  return AddFrom<float>(offset, floats, [](std::span<const float> values, std::span<float> sum) {
    AddTo(sum, values);
  });
}

Status TierSum::AddQuantized(std::uint64_t offset, const TierSum& floats, int exponent,
                             float largest) {
  return AddFrom<std::int64_t>(offset, floats, [&](auto values, auto sum) {
    model::AddQuantized(values, exponent, largest, sum);
  });
}

Status TierSum::AddAll(std::span<const std::byte> elements) {
  const auto add = [&]<typename T>(T) -> Status {
    const std::span values(reinterpret_cast<const T*>(elements.data()), bytes() / sizeof(T));
    for (Part& part : parts_) {
      RETURN_IF_ERROR(Change<T>(part, [&](std::span<T> sum, std::uint64_t at) {
        AddTo(sum, values.subspan(part.offset + at, sum.size()));
      }));
    }
    return {};
  };
  return element_ == Element::kFloat ? add(float()) : add(std::int64_t());
}

Status TierSum::FillGaps() {
  for (Part& part : parts_) {
    if (part.written) continue;
    const auto leave = [](auto, std::uint64_t) {};
    RETURN_IF_ERROR(element_ == Element::kFloat ? Change<float>(part, leave)
                                                : Change<std::int64_t>(part, leave));
  }
  return {};
}

Result<TierSum> TierSum::Copy() const {
  TierSum copy(*space_, group_, element_);
  copy.parts_ = parts_;
  ASSIGN_OR_RETURN(copy.extent_, space_->Take(bytes()));
  std::vector<std::byte> some(std::min<std::uint64_t>(bytes(), checkpoint::kPieceBytes));
  for (std::uint64_t at = 0; at < bytes(); at += some.size()) {
    const auto part = std::span(some).first(std::min<std::uint64_t>(some.size(), bytes() - at));
    RETURN_IF_ERROR(space_->tier().Read(extent_->offset() + at, part));
    RETURN_IF_ERROR(space_->tier().Write(copy.extent_->offset() + at, part));
  }
  return copy;
}

template <typename T>
Status TierSum::Look(Shown* shown) const {
  // A piece for each thread, while the next ones come.
  const std::uint64_t at_once =
      static_cast<std::uint64_t>(at::get_num_threads()) * checkpoint::kPieceBytes;
  const auto bring = [&](std::uint64_t at, Transit* coming) {
    const std::uint64_t size = std::min(at_once, bytes() - at);
    return Bring(at / sizeof(T), size / sizeof(T), coming);
  };
  Squares<T> squares;
  std::size_t part = 0;
  Transit coming;
  Bytes next = bytes() == 0 ? Bytes() : bring(0, &coming);
  for (std::uint64_t at = 0; at < bytes(); at += at_once) {
    RETURN_IF_ERROR(coming.Wait());
    const Bytes pieces = std::move(next);
    if (at + pieces.size() < bytes()) next = bring(at + pieces.size(), &coming);
    AddDigests(pieces.span(), &shown->piece_digests);
    std::span numbers(reinterpret_cast<const T*>(pieces.data()), pieces.size() / sizeof(T));
    for (std::uint64_t element = at / sizeof(T); !numbers.empty();) {
      const std::uint64_t end = parts_[part].offset + parts_[part].count;
      const auto n = std::min<std::size_t>(numbers.size(), end - element);
      squares.Add(numbers.first(n));
      numbers = numbers.subspan(n);
      element += n;
      if (element != end) continue;
      shown->squared_norms.push_back(squares.Take());
      ++part;
    }
  }
  return {};
}

Result<TierSum::Shown> TierSum::Show() {
  ASSIGN_OR_RETURN(const auto read, BeginShow());
  return read();
}

Result<TierSum::Read> TierSum::BeginShow() {
  RETURN_IF_ERROR(FillGaps());
  ASSIGN_OR_RETURN(Bytes mapped, space_->tier().Map(extent_->offset(), bytes(), extent_));
  // What watches them may not keep the extent, as the mapping's owner does.
  const auto elements = std::make_shared<const Bytes>(std::move(mapped));
  shown_ = elements;
  return Read([sum = *this, elements]() -> Result<Shown> {
    Shown shown{Bytes::Wrap(elements->data(), elements->size(), elements), {}, {}};
    RETURN_IF_ERROR(sum.element_ == Element::kFloat ? sum.Look<float>(&shown)
                                                    : sum.Look<std::int64_t>(&shown));
    return shown;
  });
}

bool TierSum::IsShownAs(const Bytes& bytes) const {
  const std::shared_ptr<const Bytes> shown = shown_.lock();
  return shown != nullptr && bytes.data() == shown->data() && bytes.size() == shown->size();
}

Bytes TierSum::Bring(std::uint64_t first, std::uint64_t count, Transit* coming) const {
  const std::uint64_t size = count * width();
  const std::shared_ptr<std::byte[]> memory = tier::MakeMemory(size);
  coming->Read(space_->tier(), extent_->offset() + first * width(), memory, size);
  return Bytes::Wrap(memory.get(), size, memory);
}

}  // namespace swarm::model
