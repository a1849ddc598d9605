// SPDX-License-Identifier: Apache-2.0
// A small least-recently-used cache. It keeps the last `Count` keys that were asked for, each with the number of times
// it was asked for and a value that its user may set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace flashscan::cuda {

template <typename Key, typename Value, size_t Count>
class Recent {
  public:
    struct Entry {
        Key key{};
        size_t asked = 0;  // how often, this time included
        Value value{};
    };

    Entry& operator[](const Key& key) {
        auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
        if (found == entries_.end()) {
            if (entries_.size() == Count) entries_.pop_back();
            entries_.push_back({key, 0, {}});
            found = entries_.end() - 1;
        }
        std::rotate(entries_.begin(), found, found + 1);
        ++entries_.front().asked;
        return entries_.front();
    }

  private:
    std::vector<Entry> entries_;  // the most recent first
};

}  // namespace flashscan::cuda
