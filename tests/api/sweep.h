// SPDX-License-Identifier: Apache-2.0
// Plans of extents of any size, in triples: refused with a sentence, or with the bytes that exact arithmetic gives.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "api/fixture.h"

namespace api {

using namespace support;

inline constexpr int64_t most = std::numeric_limits<int64_t>::max();
inline constexpr int64_t hostile[] = {0,
                                      1,
                                      2,
                                      3,
                                      (int64_t{1} << 31) - 1,
                                      int64_t{1} << 31,
                                      int64_t{1} << 32,
                                      (int64_t{1} << 33) + 1,
                                      int64_t{1} << 50,
                                      int64_t{1} << 62,
                                      most,
                                      -1,
                                      std::numeric_limits<int64_t>::min()};

// Exact up to 2^64, from where on it stays: no size is as large.
struct Exact {
    __extension__ typedef unsigned __int128 Wide;
    Wide value;
    Exact(int64_t v) : value(static_cast<Wide>(v)) {}
    static Exact of(Wide v) {
        Exact e(0);
        e.value = std::min(v, Wide{1} << 64);
        return e;
    }
    friend Exact operator*(Exact a, Exact b) {
        return a.value == 0                          ? Exact(0)
               : b.value > (Wide{1} << 64) / a.value ? of(Wide{1} << 64)
                                                     : of(a.value * b.value);
    }
    friend Exact operator+(Exact a, Exact b) { return of(a.value + b.value); }
    bool fits() const { return value <= static_cast<Wide>(most); }
    bool is_small() const { return value < (Wide{1} << 48); }
};

struct Size {
    int32_t pass, id;
    Exact bytes;
};
inline constexpr int32_t forward = FLASHSCAN_PASS_FORWARD, backward = FLASHSCAN_PASS_BACKWARD;

// A family with one of its descriptors: how its plans are made, which fields are extents, and the sizes of its shapes.
struct Family {
    std::vector<int64_t*> fields;
    std::vector<const char*> names;
    std::function<flashscan_status(flashscan_plan**, const flashscan_options*)> plan;
    std::function<bool()> is_valid;            // by the words of the header
    std::function<std::vector<Size>()> sizes;  // of valid problems
    std::function<Exact()> volume;             // elements, with 1 in the place of extents that are 0
    std::function<Exact(int32_t)> least_scratch;
};

struct Sweep {
    const Family& family;
    flashscan_options options{};
    int failures = 0;
    double slowest = 0;

    std::string values() const {
        std::string text;
        for (size_t i = 0; i < family.fields.size(); ++i)
            text += std::string(family.names[i]) + " " + std::to_string(*family.fields[i]) + " ";
        return text;
    }
    void expect(bool holds, const std::string& what) {
        if (!holds && ++failures <= 5) ADD_FAILURE() << values() << ": " << what;
    }

    bool is_empty() const {
        const std::vector<Size> sizes = family.sizes();
        return std::none_of(sizes.begin(), sizes.end(),
                            [](const Size& s) { return s.id == FLASHSCAN_ARG_INPUT && s.bytes.value > 0; });
    }
    void check_sizes(const flashscan_plan* plan) {
        for (const Size& size : family.sizes()) {
            size_t bytes = 0;
            const flashscan_status status = flashscan_plan_arg_bytes(plan, size.pass, size.id, &bytes);
            expect(status == FLASHSCAN_STATUS_OK && bytes == size.bytes.value,
                   "argument " + std::to_string(size.id) + " has " + std::to_string(bytes) + " bytes");
        }
        for (const int32_t pass : {forward, backward}) {
            size_t bytes = 0;
            if (flashscan_plan_arg_bytes(plan, pass, FLASHSCAN_ARG_SCRATCH, &bytes) != FLASHSCAN_STATUS_OK) continue;
            const std::string text = "SCRATCH of pass " + std::to_string(pass) + " has " + std::to_string(bytes);
            if (is_empty())
                expect(bytes == 0, text);
            else
                expect(bytes <= static_cast<size_t>(most) && bytes >= family.least_scratch(pass).value, text);
        }
    }

    void check() {
        flashscan_plan* plan = nullptr;
        const double start = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
        const flashscan_status status = family.plan(&plan, &options);
        slowest = std::max(slowest, cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - start);
        if (!family.is_valid()) {
            expect(status == FLASHSCAN_STATUS_INVALID_ARGUMENT || status == FLASHSCAN_STATUS_SIZE_OVERFLOW,
                   "is accepted");
        } else if (status == FLASHSCAN_STATUS_OK) {
            check_sizes(plan);
        } else {
            bool all_small = family.volume().is_small();
            for (const Size& size : family.sizes()) all_small = all_small && size.bytes.is_small();
            expect(status == FLASHSCAN_STATUS_SIZE_OVERFLOW && !all_small,
                   std::string("is refused: ") + flashscan_last_error());
        }
        flashscan_plan_destroy(plan);
    }

    // All values of three fields at once, for all triples of fields.
    void run() {
        const auto& f = family.fields;
        for (size_t i = 0; i < f.size(); ++i)
            for (size_t j = i + 1; j < f.size(); ++j)
                for (size_t k = j + 1; k < f.size(); ++k) run(*f[i], *f[j], *f[k]);
        EXPECT_EQ(failures, 0);
        EXPECT_LT(slowest, 1.0);
    }
    void run(int64_t& a, int64_t& b, int64_t& c) {
        const int64_t before[] = {a, b, c};
        for (const int64_t x : hostile)
            for (const int64_t y : hostile)
                for (const int64_t z : hostile) {
                    a = x, b = y, c = z;
                    check();
                }
        a = before[0], b = before[1], c = before[2];
    }
};

inline void sweep(const Family& family, std::initializer_list<const char*> kernels) {
    for (const char* kernel : kernels)
        for (const int32_t determinism : {FLASHSCAN_DETERMINISM_RUN_TO_RUN, FLASHSCAN_DETERMINISM_BATCH_INVARIANT}) {
            Sweep s{family};
            s.options.struct_size = sizeof s.options;
            s.options.threads = 7;
            s.options.kernel = kernel;
            s.options.determinism = determinism;
            s.run();
        }
}

inline int64_t bytes_of(int32_t dtype) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_F32: return 4;
    case FLASHSCAN_DTYPE_F64:
    case FLASHSCAN_DTYPE_C64: return 8;
    case FLASHSCAN_DTYPE_C128: return 16;
    default: return 2;
    }
}
inline int64_t state_bytes_of(int32_t dtype) { return std::max<int64_t>(bytes_of(dtype), 4); }

template <typename Desc>
bool has_valid_rows(const Desc& d) {
    return d.batch >= 0 && d.time >= 0 && d.num_sequences >= 0 && (d.num_sequences == 0 || d.batch == 1);
}
template <typename Desc>
Exact state_rows(const Desc& d) {
    return d.num_sequences > 0 ? d.num_sequences : d.batch;
}
template <typename Desc>
Exact volume(const Desc& d, int64_t inner) {
    const auto some = [](int64_t extent) { return Exact(std::max<int64_t>(extent, 1)); };
    return (some(d.batch) + some(d.num_sequences)) * some(d.time) * some(inner);
}
template <typename Desc>
void add_sequences(std::vector<Size>& list, const Desc& d, bool has_reset) {
    if (has_reset) list.push_back({forward, FLASHSCAN_ARG_RESET, Exact(d.batch) * d.time});
    if (d.num_sequences > 0) list.push_back({forward, FLASHSCAN_ARG_SEQ_OFFSETS, (Exact(d.num_sequences) + 1) * 8});
}

}  // namespace api
