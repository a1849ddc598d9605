// SPDX-License-Identifier: Apache-2.0
// States in a pool, whose rows are picked by STATE_INDICES, which only the device can read.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Copies rows to or from the rows that indices name. An index that names no row of the pool is read as zeros and is not
// written.
void copy_indexed_rows(const RowCopy& copy, void* stream);

// Fills the parts of an argument with zeros that belong to rows whose index names no row of the pool.
void clear_padding(const ArgumentSpec& spec, void* data, const RowSelection& rows, void* stream);

}  // namespace flashscan::cuda
