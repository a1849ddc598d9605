// SPDX-License-Identifier: Apache-2.0
// The tree of operator_batched.cpp: the levels of all chains, and the calls that go up and down them.
#pragma once

#include <cstring>

#include "core/error.h"
#include "core/operator_arguments.h"
#include "cpu/operator_pieces.h"

namespace flashscan::cpu {

// One chain's elements at every level, and where its prefixes belong.
struct TreeChain {
    std::vector<std::vector<const char*>> level;
    std::vector<char*> prefix;
    const ChainPiece* piece = nullptr;
    bool has_state = false;
};

// The pairs of one call.
struct Pairs {
    std::vector<const char*> left, right;
    std::vector<char*> out;
    void add(const char* l, const char* r, char* o) { left.push_back(l), right.push_back(r), out.push_back(o); }
};

class OperatorTree {
  protected:
    explicit OperatorTree(const OperatorProblem& problem)
        : p_(problem), f_(p_.custom), bytes_(static_cast<size_t>(f_.element_bytes)) {}

    // Elements of scratch, taken one after the other.
    struct Slots {
        char* next;
        size_t bytes;
        char* take(int64_t count = 1) {
            char* taken = next;
            next += static_cast<size_t>(count) * bytes;
            return taken;
        }
    };

    Extent elements() const { return p_.input_count() + p_.chains(); }
    Extent pairs() const { return elements() / 2 + 1; }
    const char* at(const void* data, int64_t place) const {
        return static_cast<const char*>(data) + place * f_.element_bytes;
    }
    void put(void* data, int64_t place, const char* from) const {
        if (data != nullptr) std::memcpy(static_cast<char*>(data) + place * f_.element_bytes, from, bytes_);
    }
    int64_t place(const OperatorPiece& q, int64_t i) const {
        const int64_t time = p_.direction == Direction::forward ? q.begin + i : q.end - 1 - i;
        return q.base + time * p_.steps().time;
    }

    // Level 0 of every chain. Prefixes go to OUTPUT where `in_output` and a step is theirs, else to scratch.
    std::vector<TreeChain> chains_of(const OperatorBuffers& b, const std::vector<ChainPiece>& pieces, Slots& slots,
                                     bool in_output) const {
        std::vector<TreeChain> chains;
        for (const ChainPiece& piece : pieces) {
            TreeChain chain;
            chain.piece = &piece;
            chain.has_state = b.state_in != nullptr;
            std::vector<const char*> z;
            if (chain.has_state) z.push_back(at(b.state_in, piece.state));
            for (int64_t i = 0; i < piece.at.steps; ++i) z.push_back(at(b.input, place(piece.at, i)));
            const auto count = static_cast<int64_t>(z.size());
            // Prefix j is that of step j - 1 or j; exclusive scans want it one step later, and have a state.
            const bool later = p_.mode == OperatorMode::exclusive;
            const int64_t shift = chain.has_state && !later ? 1 : 0;
            for (int64_t j = 0; j < count; ++j) {
                const int64_t step = j - shift;
                const bool own = in_output && step >= 0 && step < piece.at.steps;
                chain.prefix.push_back(own ? const_cast<char*>(at(b.output, place(piece.at, step))) : slots.take());
            }
            chain.level.push_back(std::move(z));
            chains.push_back(std::move(chain));
        }
        return chains;
    }

    // The calls that make A of every level from the one below. A[k][0] is the prefix of 2^k elements, and becomes that.
    std::vector<Pairs> up(std::vector<TreeChain>& chains, Slots& slots) const {
        std::vector<Pairs> calls;
        for (size_t k = 0;; ++k) {
            Pairs pairs;
            for (TreeChain& chain : chains) {
                if (chain.level.size() <= k || chain.level[k].size() < 2) continue;
                std::vector<const char*> next;
                for (size_t i = 0; i + 1 < chain.level[k].size(); i += 2) {
                    char* out = i == 0 ? chain.prefix[(size_t{2} << k) - 1] : slots.take();
                    pairs.add(chain.level[k][i], chain.level[k][i + 1], out);
                    next.push_back(out);
                }
                chain.level.push_back(std::move(next));
            }
            if (pairs.out.empty()) return calls;
            calls.push_back(std::move(pairs));
        }
    }
    static size_t levels(const std::vector<TreeChain>& chains) {
        size_t most = 0;
        for (const TreeChain& chain : chains) most = std::max(most, chain.level.size());
        return most;
    }
    static size_t prefix_at(size_t k, size_t i) { return ((i + 1) << k) - 1; }

    // The calls that make the other prefixes, after those of up.
    void down(const std::vector<TreeChain>& chains, std::vector<Pairs>& calls) const {
        for (size_t k = levels(chains); k-- > 0;) {
            Pairs pairs;
            for (const TreeChain& chain : chains)
                for (size_t i = 2; chain.level.size() > k && i < chain.level[k].size(); i += 2)
                    pairs.add(chain.prefix[prefix_at(k, i - 1)], chain.level[k][i], chain.prefix[prefix_at(k, i)]);
            if (!pairs.out.empty()) calls.push_back(std::move(pairs));
        }
    }

    // Nothing is allocated from here on: prefixes may be OUTPUT, which a call that finds no memory leaves as it was.
    void run(const std::vector<TreeChain>& chains, const std::vector<Pairs>& calls, char* gathered) const {
        for (const TreeChain& chain : chains)
            if (!chain.prefix.empty()) std::memcpy(chain.prefix[0], chain.level[0][0], bytes_);
        for (const Pairs& pairs : calls) combine(pairs, gathered);
    }

    // prefix.back() becomes the product of all.
    void reduce(std::vector<TreeChain>& chains, Slots& slots, char* gathered) const {
        std::vector<const char*> sum(chains.size());
        for (size_t c = 0; c < chains.size(); ++c)
            if (!chains[c].prefix.empty()) sum[c] = chains[c].level.back()[0];
        std::vector<char*> own(chains.size());
        for (char*& two : own) two = slots.take(2);
        for (size_t k = levels(chains); k-- > 0;) {
            Pairs pairs;
            for (size_t c = 0; c < chains.size(); ++c) {
                const auto& level = chains[c].level;
                if (level.size() <= k || level[k].size() < 3 || level[k].size() % 2 == 0) continue;
                char* out = sum[c] == own[c] ? own[c] + bytes_ : own[c];
                pairs.add(sum[c], level[k].back(), out);
                sum[c] = out;
            }
            if (!pairs.out.empty()) combine(pairs, gathered);
        }
        for (size_t c = 0; c < chains.size(); ++c)
            if (sum[c] != nullptr && sum[c] != chains[c].prefix.back())
                std::memcpy(chains[c].prefix.back(), sum[c], bytes_);
    }

    // The distance from each element to the next, or 0 where it is none or not constant.
    template <typename P>
    static int64_t stride_of(const std::vector<P>& list, int64_t alone) {
        if (list.size() == 1) return alone;
        const int64_t stride = list[1] - list[0];
        for (size_t i = 2; i < list.size(); ++i)
            if (list[i] - list[i - 1] != stride) return 0;
        return stride;
    }
    template <typename P>
    char* gather(const std::vector<P>& list, char* to) const {
        for (size_t i = 0; i < list.size(); ++i) std::memcpy(to + i * bytes_, list[i], bytes_);
        return to;
    }

    void combine(const Pairs& pairs, char* gathered) const {
        const auto count = static_cast<int64_t>(pairs.out.size());
        const size_t room = static_cast<size_t>(this->pairs()) * bytes_;
        const int64_t dense = f_.element_bytes;
        int64_t left_stride = stride_of(pairs.left, dense), right_stride = stride_of(pairs.right, dense);
        int64_t out_stride = stride_of(pairs.out, dense);
        const char *left = pairs.left[0], *right = pairs.right[0];
        char* out = pairs.out[0];
        if (left_stride == 0) left = gather(pairs.left, gathered), left_stride = dense;
        if (right_stride == 0) right = gather(pairs.right, gathered + room), right_stride = dense;
        const bool scatter = out_stride == 0;
        if (scatter) out = gathered + 2 * room, out_stride = dense;
        check(f_.batched(f_.state, left, left_stride, right, right_stride, out, out_stride, count, nullptr), "batched");
        for (size_t i = 0; scatter && i < pairs.out.size(); ++i) std::memcpy(pairs.out[i], out + i * bytes_, bytes_);
    }
    static void check(int32_t result, const char* name) {
        if (result != 0) fail(Code::callback_failed, "custom.{} returned {}; accepted is 0", name, result);
    }

    OperatorProblem p_;
    CustomOperator f_;
    size_t bytes_;
};

}  // namespace flashscan::cpu
