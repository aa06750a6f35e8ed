#include "operator/kube/config/credentials.h"

#include <mutex>
#include <optional>

#include "operator/kube/config/files.h"

namespace swarm::kube {
namespace {

constexpr Duration kReadAgain = std::chrono::seconds(60);

std::string Bearer(const std::string& token) { return token.empty() ? "" : "Bearer " + token; }

class Fixed final : public Credentials {
 public:
  explicit Fixed(const std::string& token) : authorization_(Bearer(token)) {}
  Result<std::string> Authorization() override { return authorization_; }
  void OnRefused() override {}

 private:
  const std::string authorization_;
};

class FromFile final : public Credentials {
 public:
  FromFile(std::filesystem::path path, Timing& timing) : path_(std::move(path)), timing_(timing) {}

  Result<std::string> Authorization() override {
    const std::lock_guard lock(mutex_);
    const Timepoint now = timing_.Now();
    if (!read_at_ || now - *read_at_ >= kReadAgain) {
      if (auto text = ReadTrimmed(path_); text.ok() && !text->empty()) {
        token_ = std::move(text).value();
        read_at_ = now;
      }
    }
    return Bearer(token_);
  }

  void OnRefused() override {
    const std::lock_guard lock(mutex_);
    read_at_.reset();
  }

 private:
  const std::filesystem::path path_;
  Timing& timing_;
  std::mutex mutex_;
  std::string token_;
  std::optional<Timepoint> read_at_;  // none: read before the next use
};

}  // namespace

std::shared_ptr<Credentials> FixedToken(const std::string& token) {
  return std::make_shared<Fixed>(token);
}

std::shared_ptr<Credentials> TokenFile(const std::filesystem::path& path, Timing& timing) {
  return std::make_shared<FromFile>(path, timing);
}

}  // namespace swarm::kube
