// SPDX-License-Identifier: Apache-2.0
// Results as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "measure.h"

namespace bench {

// What holds for the whole run.
struct RunInfo {
    std::string backend, device, driver, date, commit;
    Settings settings;
    bool flushed = true;
    double timer_floor_us = 0;
};

// Plan creation that was the first of the process, with all that is loaded then.
double first_plan_us(const std::vector<Result>& results);

// `width` is that of the column of problems.
std::string table_header(size_t width);
std::string table_row(const Result& result, size_t width);
// Counts of what was measured, went wrong, and met its targets.
std::string summary(const std::vector<Result>& results);

// Throws Failure when the file cannot be written.
void write_json(const std::string& path, const RunInfo& info, const Machine& machine,
                const std::vector<Result>& results);

}  // namespace bench
