// SPDX-License-Identifier: Apache-2.0
// States that lie in a pool: rows that STATE_INDICES picks, on a device that alone can read the indices.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Copies rows of which one side has indices. One that names no row of the pool reads as zeros and is not written.
void copy_indexed_rows(const RowCopy& copy, void* stream);

// Fills with zeros what belongs to rows whose index names no row of the pool.
void clear_padding(const ArgumentSpec& spec, void* data, const RowSelection& rows, void* stream);

}  // namespace flashscan::cuda
