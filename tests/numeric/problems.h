// SPDX-License-Identifier: Apache-2.0
// The problems that the numeric suites run.
#pragma once

#include <initializer_list>
#include <vector>

#include "support/problem.h"

namespace numeric {

enum class Size {
    tiny,           // for compute-sanitizer: a few hundred elements, and one row of several chunks of time
    varied,         // up to some ten thousand elements
    few,            // few steps, of one row to more than a hundred, as in decoding
    chunks,         // few rows of so many steps that kernels may cut time into chunks
    aligned,        // strides of 16 bytes, gates for each element, one or several columns of warps a block
    few_long_rows,  // the same, gates by value, one dtype, time mostly long
    columns,        // channels innermost, any strides, gates for each element, time mostly of several chunks
    ragged,         // time innermost, odd extents and strides, gates for each element
    short_rows,     // time innermost, rows of a few lanes, strides of 16 bytes, gates for each element by value
    skewed          // as columns, odd numbers of channels, 16-bit data
};

// The problems of these lines (support::problem_of).
std::vector<support::Problem> problems_of(std::initializer_list<const char*> lines);

// Every pair of levels of all features.
std::vector<support::Problem> pairs(Size size);
// Each feature by itself on an otherwise plain problem.
std::vector<support::Problem> singles();
// Extents around powers of two, zeros, primes; the features follow from the position.
std::vector<support::Problem> shapes();
// One long row, many short rows.
std::vector<support::Problem> extremes();
// A layout and its extents each: gates that batch entries (b), time (t) and channels (c) share, in all data types.
std::vector<support::Problem> shared_gates(std::initializer_list<const char*> shapes,
                                           std::initializer_list<const char*> broadcasts = {"b", "c", "bc", "t", "tc",
                                                                                            "btc"});
// Few rows, time innermost, of several of the groups that the kernel "rows" gathers chunks in, forward or backward.
std::vector<support::Problem> chunk_groups();

}  // namespace numeric
