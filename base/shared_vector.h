// A vector whose copies share their elements until one of them is changed: for lists that many
// receive. Values may be copied and read on several threads; one value is changed on one thread.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <vector>

namespace swarm {

template <typename T>
class SharedVector {
 public:
  SharedVector() = default;
  SharedVector(std::initializer_list<T> elements)
      : elements_(std::make_shared<std::vector<T>>(elements)) {}

  auto begin() const { return elements().begin(); }
  auto end() const { return elements().end(); }
  std::size_t size() const { return elements().size(); }
  bool empty() const { return elements().empty(); }
  const T& operator[](std::size_t i) const { return elements()[i]; }
  const std::vector<T>& elements() const {
    static const std::vector<T> kNone;
    return elements_ ? *elements_ : kNone;
  }

  /// The elements of this value alone, to be changed. Copies them if others share them.
  std::vector<T>& Own() {
    if (!elements_) {
      elements_ = std::make_shared<std::vector<T>>();
    } else if (elements_.use_count() > 1) {
      elements_ = std::make_shared<std::vector<T>>(*elements_);
    }
    return *elements_;
  }

  bool operator==(const SharedVector& other) const {
    return elements_ == other.elements_ || elements() == other.elements();
  }

 private:
  std::shared_ptr<std::vector<T>> elements_;  // null: empty
};

}  // namespace swarm
