#include "worker/net/pod/pod_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "base/hash.h"

namespace swarm::net {
namespace {

constexpr std::uint64_t kMagic = 0x31646f706d726177;  // "warmpod1"
constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kAlign = 64;  // a cache line

using Key = std::array<std::uint64_t, 2>;

std::size_t RoundUp(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

Status Failed(const char* what) {
  return Unavailable(std::string("memory for the workers of a pod: ") + what + ": " +
                     std::strerror(errno));
}

}  // namespace

struct PodMemory::Header {
  std::uint64_t magic;
  Key key;
  std::uint64_t workers;
  std::uint64_t part_bytes;
};

struct PodMemory::Block {
  alignas(kAlign) std::uint32_t taken;
};

struct PodMemory::Description {
  Key key;
  std::uint64_t worker;
  std::uint64_t begin;  // of the block, in the part
  std::uint64_t bytes;  // of the payload
  Digest digest;
};

PodMemory::~PodMemory() {
  munmap(data_, bytes_);
  close(fd_);
}

Result<std::shared_ptr<PodMemory>> PodMemory::Map(int fd, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Failed("mmap");
  return std::shared_ptr<PodMemory>(new PodMemory(fd, static_cast<std::byte*>(data), bytes));
}

Result<std::shared_ptr<PodMemory>> PodMemory::Create(std::size_t workers, std::size_t part_bytes) {
  Header header{kMagic, {}, workers, RoundUp(part_bytes, kAlign)};
  const std::size_t bytes = kHeaderBytes + workers * header.part_bytes;
  if (getrandom(header.key.data(), sizeof header.key, 0) != sizeof header.key) {
    return Failed("getrandom");
  }
  const int fd = memfd_create("swarm-pod", 0);
  if (fd < 0) return Failed("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const Status status = Failed("ftruncate");
    close(fd);
    return status;
  }
  auto memory = Map(fd, bytes);
  if (!memory.ok()) {
    close(fd);
    return memory;
  }
  std::memcpy((*memory)->data_, &header, sizeof header);
  return memory;
}

Result<std::shared_ptr<PodMemory>> PodMemory::Open(int fd, std::size_t worker) {
  const auto wrong = [&](const std::string& why) {
    return InvalidArgument("descriptor " + std::to_string(fd) +
                           " is not the memory of a pod with a worker " + std::to_string(worker) +
                           ": " + why);
  };
  struct stat status{};
  if (fstat(fd, &status) != 0) return wrong(std::strerror(errno));
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < kHeaderBytes) return wrong("it is too short");
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return wrong(std::strerror(errno));
  auto memory = Map(own, bytes);
  if (!memory.ok()) {
    close(own);
    return memory;
  }
  const Header& header = (*memory)->header();
  if (header.magic != kMagic || worker >= header.workers ||
      bytes != kHeaderBytes + header.workers * header.part_bytes) {
    return wrong("it has " + std::to_string(bytes) + " bytes of something else");
  }
  (*memory)->worker_ = worker;
  return memory;
}

std::size_t PodMemory::workers() const { return header().workers; }

std::byte* PodMemory::PartBegin(std::size_t worker) const {
  return data_ + kHeaderBytes + worker * header().part_bytes;
}

std::atomic_ref<std::uint32_t> PodMemory::TakenFlag(std::byte* block) {
  return std::atomic_ref(reinterpret_cast<Block*>(block)->taken);
}

std::optional<std::size_t> PodMemory::Reserve(std::size_t bytes, Timepoint now) {
  const std::lock_guard lock(mutex_);
  while (!lent_.empty()) {
    const bool taken = TakenFlag(PartBegin(worker_) + lent_.front().begin).load() != 0;
    if (!taken && now - lent_.front().since < kLoanMax) break;
    lent_.pop_front();
  }
  const std::size_t size = header().part_bytes;
  std::size_t begin = 0, end = size;  // of what is free
  if (!lent_.empty()) {
    const std::size_t oldest = lent_.front().begin;
    begin = lent_.back().end;
    const bool wrapped = begin <= oldest;
    if (wrapped) end = oldest;
    if (!wrapped && size - begin < bytes) begin = 0, end = oldest;
  }
  if (end - begin < bytes) return std::nullopt;
  TakenFlag(PartBegin(worker_) + begin).store(0);
  lent_.push_back({begin, begin + bytes, now});
  return begin;
}

std::optional<Bytes> PodMemory::Lend(const Bytes& payload, Timepoint now) {
  const auto begin = Reserve(sizeof(Block) + RoundUp(payload.size(), kAlign), now);
  if (!begin) return std::nullopt;
  std::memcpy(PartBegin(worker_) + *begin + sizeof(Block), payload.data(), payload.size());
  const Description description{header().key, worker_, *begin, payload.size(),
                                ComputeDigest(payload.span())};
  return Bytes::Copy(&description, sizeof description);
}

void PodMemory::TakeBack(const Bytes& description) {
  Description loan;
  std::memcpy(&loan, description.data(), sizeof loan);
  TakenFlag(PartBegin(worker_) + loan.begin).store(1);
}

bool PodMemory::IsLoan(const Bytes& bytes) const {
  return bytes.size() == sizeof(Description) &&
         std::memcmp(bytes.data(), &header().key, sizeof(Key)) == 0;
}

Result<Bytes> PodMemory::Take(const Bytes& description) {
  Description loan;
  std::memcpy(&loan, description.data(), sizeof loan);
  const std::size_t size = header().part_bytes;
  if (loan.worker >= header().workers || loan.begin % kAlign != 0 || loan.begin > size ||
      size - loan.begin < sizeof(Block) || size - loan.begin - sizeof(Block) < loan.bytes) {
    return DataLoss("a payload in the memory of the pod lies outside of it");
  }
  std::byte* const block = PartBegin(loan.worker) + loan.begin;
  Bytes payload = Bytes::Copy(block + sizeof(Block), loan.bytes);
  if (ComputeDigest(payload.span()) != loan.digest) {
    return DataLoss("a payload in the memory of the pod came too late and was written over");
  }
  TakenFlag(block).store(1);
  return payload;
}

}  // namespace swarm::net
