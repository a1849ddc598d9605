// SPDX-License-Identifier: Apache-2.0
// A small cache: the last few keys that were asked for, each with how often and with a value that its user may set. The
// key not asked for longest makes room, with its value.
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
        size_t asked = 0;  // this time included
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
    std::vector<Entry> entries_;  // the latest first
};

}  // namespace flashscan::cuda
