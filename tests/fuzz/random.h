// SPDX-License-Identifier: Apache-2.0
// Random numbers of one case: the same for the same seed and number of the case, on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace fuzz {

class Random {
  public:
    Random(uint64_t seed, uint64_t index) : state_(seed * 0x9e3779b97f4a7c15U ^ (index + 1) * 0xd1342543de82ef95U) {}

    uint64_t bits() {  // splitmix64 (Steele, Lea and Flood 2014)
        uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    bool chance(double probability) { return unit() < probability; }
    // In [0, end).
    int64_t below(int64_t end) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(end)); }
    int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
    template <typename T>
    T of(std::initializer_list<T> list) {
        return list.begin()[below(static_cast<int64_t>(list.size()))];
    }
    template <typename List>
    auto of(const List& list) {
        return std::begin(list)[below(static_cast<int64_t>(std::size(list)))];
    }
    // An extent of at most `most`: nothing, one, the edges of tiles, primes, or anything, small ones more often.
    int64_t extent(int64_t most) {
        int64_t drawn = 0;
        const int64_t kind = below(16);
        if (kind < 2)
            drawn = kind;
        else if (kind < 8)
            drawn = (int64_t{1} << below(14)) + between(-1, 1);
        else if (kind < 10)
            drawn = of({3, 5, 7, 13, 17, 29, 31, 61, 127, 251, 509, 1021, 2039});
        else
            drawn = static_cast<int64_t>(std::exp(unit() * std::log(static_cast<double>(most) + 1)));
        return drawn <= most ? drawn : below(most + 1);
    }

  private:
    uint64_t state_;
};

}  // namespace fuzz
