// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear_rank_pass.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/workspace.h"
#include "cpu/linear_chain.h"
#include "cpu/threads.h"

namespace flashscan::cpu {
namespace {

constexpr int64_t most_block_bytes = 8192;  // what the kernels' panels hold of a step
constexpr int64_t least_block_bytes = 256;  // of a state: what is worth a task
constexpr int64_t wanted_tasks = 16;

// What a message says about a piece of a row.
enum Mark : char {
    no_steps = 0,
    has_summary = 1,
    has_reset = 2
};

// Returns how many pieces of time the rows of a rank are cut into: several where rows are few and too narrow to be cut
// into blocks of channels. The choice depends on extents alone that all ranks have in common.
int64_t choose_pieces(int64_t all_rows, int64_t row_bytes, bool batch_invariant) {
    const int64_t rows = batch_invariant ? 1 : std::max<int64_t>(all_rows, 1);
    const int64_t blocks = std::max<int64_t>(ceil_div(row_bytes, least_block_bytes), 1);
    return std::max<int64_t>(wanted_tasks / std::min(rows, wanted_tasks) / blocks, 1);
}

// Kernels along time write one product for both parts of a complex number where its gate is real. The joining kernels,
// which are not along time, read one for each part: this repeats it.
template <typename T>
void spread_products(const LinearSummary& summary, int64_t channels) {
    auto *product = static_cast<T*>(summary.product), *power = static_cast<T*>(summary.power);
    for (int64_t c = 0; c < channels; ++c) product[2 * c + 1] = product[2 * c], power[2 * c + 1] = power[2 * c];
}

}  // namespace

RankPlan::RankPlan(const RankProblem& p, const Options& options, Pass pass, int thread_count, size_t inner_bytes)
    : partition(p.partition),
      own(p.own),
      joining(p.joining),
      rows(p.rows),
      row_bytes(p.channels * size_of(p.dtype)),
      channel_bytes(size_of(p.dtype)),
      threads(thread_count) {
    pieces = choose_pieces(rows, row_bytes, options.batch_invariant);
    blocks = ceil_div(row_bytes, most_block_bytes);
    tasks = p.empty ? Extent() : p.rows * blocks;

    const Extent states = Extent(rows, "SCRATCH") * row_bytes, all = states * pieces;
    Workspace message, scratch;
    message.book(Extent(sizeof(RankNote)));
    marks = message.book(Extent(rows) * pieces);
    product = message.book(all);
    power = message.book(all);
    local = message.book(all);
    edge = message.book(pass == Pass::backward ? states : Extent());
    message_bytes = message.bytes();
    const auto ranks = options.communicator.size;
    sent = scratch.book(Extent(message_bytes));
    received = scratch.book(Extent(message_bytes, "SCRATCH") * ranks);
    for (size_t* place : {&carry, &mine, &next, &end}) *place = scratch.book(states);
    round = scratch.book(states * ranks);
    work = scratch.book(Extent(std::min<int64_t>(threads, tasks)) * own.work_bytes);
    inner = scratch.book(Extent(inner_bytes));
    scratch_bytes = scratch.bytes();
}

RankPass::RankPass(const RankPlan& plan, const Communicator& ranks, const LinearCall& call, char* scratch, void* stream)
    : plan_(plan), ranks_(ranks), call_(call), scratch_(scratch), stream_(stream) {}

LinearSummary RankPass::summary(const char* message, int64_t piece, const LinearChunk& chunk) const {
    auto* at = const_cast<char*>(message) + (piece * plan_.rows + chunk.row) * plan_.row_bytes +
               chunk.c0 * plan_.channel_bytes;
    return {at + plan_.product, at + plan_.power, at + plan_.local};
}

LinearChunk RankPass::own_chunk(int64_t task, int64_t piece) const {
    const int64_t row = task / plan_.blocks, steps = row_steps(call_, row);
    const int64_t most = ceil_div(steps, plan_.pieces), begin = std::min(steps, piece * most);
    LinearChunk own{row, begin, std::min(steps - begin, most), 0, call_.channels};
    const int64_t width = ceil_div(call_.channels, plan_.blocks);
    own.c0 = std::min(call_.channels, task % plan_.blocks * width);
    own.c1 = std::min(call_.channels, own.c0 + width);
    return own;
}

void RankPass::summarise_block(int64_t task, char* work) {
    char* to = scratch_ + plan_.sent;
    const LinearVariant& variant = plan_.partition.variant;
    for (int64_t piece = 0; piece < plan_.pieces; ++piece) {
        const LinearChunk own = own_chunk(task, piece);
        if (own.steps == 0 || own.c0 == own.c1) continue;
        const LinearSummary summarised = summary(to, piece, own);
        const bool reset = plan_.own.summarise(call_, own, summarised, work);
        if (own.c0 == 0) to[plan_.mark(piece, own.row)] = reset ? has_reset : has_summary;
        if (!variant.along_time || !variant.complex_data || variant.complex_gate) continue;
        if (variant.wide)
            spread_products<double>(summarised, own.c1 - own.c0);
        else
            spread_products<float>(summarised, own.c1 - own.c0);
    }
}

void RankPass::summarise() {
    char* to = scratch_ + plan_.sent;
    std::memset(to + sizeof(RankNote), 0, plan_.message_bytes - sizeof(RankNote));
    char* work = scratch_ + plan_.work;
    for_each(plan_.threads, plan_.tasks,
             [&](int64_t i, int64_t worker) { summarise_block(i, work + worker * plan_.own.work_bytes); });
    if (place(ranks_.rank) != 0) return;
    // The first rank alone knows the state that enters it, so it sends the state after its steps.
    char *carry = scratch_ + plan_.carry, *end = scratch_ + plan_.end;
    if (call_.start != nullptr)
        std::memcpy(carry, call_.start, plan_.state_bytes());
    else
        std::memset(carry, 0, plan_.state_bytes());
    walk_own(carry, end);
    std::memcpy(to + plan_.local, end, plan_.state_bytes());
}

void RankPass::walk_own(const char* carry, char* end) {
    std::memcpy(end, carry, plan_.state_bytes());
    const char* from = scratch_ + plan_.sent;
    for_each(plan_.threads, plan_.tasks, [&](int64_t i, int64_t worker) {
        char* work = scratch_ + plan_.work + worker * plan_.own.work_bytes;
        for (int64_t piece = 0; piece < plan_.pieces; ++piece) {
            const LinearChunk own = own_chunk(i, piece);
            if (own.steps == 0 || own.c0 == own.c1) continue;
            const int64_t place = own.row * plan_.row_bytes + own.c0 * plan_.channel_bytes;
            char *here = end + place, *there = scratch_ + plan_.next + place;
            const bool reset = from[plan_.mark(piece, own.row)] == has_reset;
            if (!plan_.joining.join(call_, own, reset, summary(from, piece, own), here, there))
                plan_.own.walk(call_, own, here, there, work);
            std::memcpy(here, there, static_cast<size_t>((own.c1 - own.c0) * plan_.channel_bytes));
        }
    });
}

void RankPass::exchange() {
    ranks_.gather(scratch_ + plan_.sent, scratch_ + plan_.received, plan_.message_bytes, stream_);
    check_notes(ranks_, notes(), plan_.message_bytes);
}

// Joins a rank's summaries with `carry` into `next`; returns false where a number of `next` is not finite.
bool RankPass::join_rank(int32_t rank, const char* carry, char* next) const {
    const char* from = message(rank);
    std::atomic<bool> finite{true};
    for_each(plan_.threads, plan_.rows, [&](int64_t row, int64_t) {
        const auto bytes = static_cast<size_t>(plan_.row_bytes);
        const char* before = carry + row * plan_.row_bytes;
        char* after = next + row * plan_.row_bytes;
        // Both are taken in turn; the kernels read a lane before they write it.
        bool good = true;
        for (int64_t piece = 0; piece < plan_.pieces; ++piece) {
            const char mark = from[plan_.mark(piece, row)];
            if (mark == no_steps) continue;
            const LinearChunk all{row, 0, 0, 0, call_.channels};
            good = plan_.joining.join(call_, all, mark == has_reset, summary(from, piece, all), before, after);
            before = after;
        }
        if (before != after) std::memcpy(after, before, bytes);
        if (!good) finite = false;
    });
    return finite;
}

const char* RankPass::find_carry() {
    const size_t bytes = plan_.state_bytes();
    char *carry = scratch_ + plan_.carry, *next = scratch_ + plan_.next, *mine = scratch_ + plan_.mine;
    char *end = scratch_ + plan_.end, *told = scratch_ + plan_.round;
    if (bytes == 0) return mine;
    for (int32_t k = 0; k < ranks_.size; ++k) {
        const int32_t rank = place(k);
        if (rank == ranks_.rank) std::memcpy(mine, carry, bytes);
        if (k == ranks_.size - 1) break;
        if (k == 0) {
            std::memcpy(carry, message(rank) + plan_.local, bytes);
            continue;
        }
        if (note(rank).steps == 0) continue;
        if (join_rank(rank, carry, next)) {
            std::memcpy(carry, next, bytes);
            continue;
        }
        if (rank == ranks_.rank)
            walk_own(carry, end);
        else
            std::memset(end, 0, bytes);
        ranks_.gather(end, told, bytes, stream_);
        std::memcpy(carry, told + static_cast<size_t>(rank) * bytes, bytes);
    }
    return mine;
}

}  // namespace flashscan::cpu
