#include "worker/trainer/log/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "worker/trainer/log/event_records.h"

namespace swarm::trainer {
namespace {

constexpr std::size_t kObjectBytes = 1 << 20;         // an object in a bucket is written again
constexpr std::size_t kWaitingEventBytes = 16 << 20;  // beyond, what waits is given up
constexpr const char* kEventPrefix = "events.out.tfevents.";

}  // namespace

void EventBuffer::Follow(std::uint64_t step, double time) {
  if (!last_ || step <= *last_) records_ += SessionStartRecord(time, step);
  last_ = step;
}

void EventBuffer::Step(const StepLine& line, double time) {
  Follow(line.record.step.value, time);
  const double rate = line.seconds > 0 ? static_cast<double>(line.tokens) / line.seconds : 0.0;
  const Scalar scalars[] = {{"train/loss", line.record.loss},
                            {"train/grad_norm", line.record.grad_norm},
                            {"train/learning_rate", line.record.learning_rate},
                            {"train/tokens_per_second", rate}};
  records_ += ScalarsRecord(time, line.record.step.value, scalars);
}

void EventBuffer::Validation(protocol::Version version, double loss, double time) {
  const Scalar scalar{"validation/loss", loss};
  records_ += ScalarsRecord(time, version.value > 0 ? version.value - 1 : 0, {&scalar, 1});
}

Status EventFiles::Begin(double time) {
  if (storage_ == nullptr) {
    ASSIGN_OR_RETURN(storage_, storage::Storage::Open(uri_, options_));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, storage_->List(kEventPrefix));
  auto seconds = static_cast<unsigned long long>(time);
  for (const std::string& name : names) {
    const char* digits = name.c_str() + std::strlen(kEventPrefix);
    seconds = std::max(seconds, std::strtoull(digits, nullptr, 10) + 1);
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  char name[400];
  std::snprintf(name, sizeof name, "%s%010llu.%s.%d.0", kEventPrefix, seconds, host, ::getpid());
  name_ = name;
  content_.clear();
  waiting_.insert(0, FileVersionRecord(time));
  return Status();
}

Status EventFiles::AppendToFile(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return Unavailable(path + ": " + std::strerror(errno));
  const off_t before = ::lseek(file, 0, SEEK_END);
  const auto written = ::write(file, waiting_.data(), waiting_.size());
  const int why = errno;
  const bool complete = written == static_cast<ssize_t>(waiting_.size());
  // Behind a record that is there in part, readers find nothing.
  if (!complete && ::ftruncate(file, before) != 0) name_.clear();
  ::close(file);
  if (complete) return Status();
  return Unavailable(path + ": " + (written < 0 ? std::strerror(why) : "the disk is full"));
}

Status EventFiles::Append(std::string records, double time) {
  if (waiting_.size() > kWaitingEventBytes) {
    waiting_.clear();
    name_.clear();
  }
  waiting_ += records;
  if (waiting_.empty()) return Status();
  if (name_.empty()) RETURN_IF_ERROR(Begin(time));
  const std::string folder = storage::LocalPath(uri_);
  if (!folder.empty()) {
    RETURN_IF_ERROR(AppendToFile(folder + "/" + name_));
    waiting_.clear();
    return Status();
  }
  RETURN_IF_ERROR(storage_->Write(name_, Bytes::Copy(content_ + waiting_)));
  content_ += std::exchange(waiting_, std::string());
  if (content_.size() > kObjectBytes) name_.clear();
  return Status();
}

void TensorBoardWriter::Step(const StepLine& line) { buffer_.Step(line, UnixSeconds()); }

void TensorBoardWriter::Validation(protocol::Version version, double loss) {
  buffer_.Validation(version, loss, UnixSeconds());
}

void TensorBoardWriter::OnTick(Timepoint now) {
  if (writing_ || now - written_ < kEventPeriod) return;
  written_ = now;
  Write();
}

void TensorBoardWriter::Write() {
  if (buffer_.empty() && !failed_) return;
  writing_ = true;
  storage_.Post([this, records = buffer_.Take()]() mutable {
    const Status status = files_.Append(std::move(records), UnixSeconds());
    control_.Post([this, status] {
      writing_ = false;
      if (!status.ok() && !failed_) {
        LOG_WARN("the curves for TensorBoard cannot be written yet, trying again: {}",
                 status.message());
      }
      failed_ = !status.ok();
    });
  });
}

}  // namespace swarm::trainer
