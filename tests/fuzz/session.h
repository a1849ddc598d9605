// SPDX-License-Identifier: Apache-2.0
// Runs cases in child processes, so that one that crashes or hangs is a finding like others and the next cases run.
// They are new programs, not copies: a copy would know that it was forked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fuzz {

struct Settings {
    std::string part;
    double seconds = 10;
    double case_seconds = 60;  // a case that takes longer is a finding
    uint64_t seed = 1;
    int64_t first = 0;      // number of the first case
    int64_t cases = -1;     // so many at the most
    int64_t block = 200;    // cases of one child process, whose environment they share
    int64_t findings = 20;  // after so many it stops
    bool cuda = false;
    std::string kernel;  // alone, where not empty
    std::string json;
    std::vector<std::string> lines;      // run these alone
    std::vector<std::string> skip;       // not those with one of these words in their line
    std::vector<std::string> arguments;  // of the program
    int child = -1;  // of a process that works: the file whose memory it shares with the one that watches
};

// By this a case tells the process that watches it what happens.
class Session {
  public:
    explicit Session(const Settings& settings) : settings_(settings) {}
    const Settings& settings() const { return settings_; }
    // Says what is about to run, so that it is known when it crashes. False if it is to be skipped.
    [[nodiscard]] bool announce(const std::string& line) const;
    void finding(const std::string& what) const;
    // Adds to a counter of the summary.
    void count(const char* what, int64_t n = 1) const;

  private:
    const Settings& settings_;
};

using Work = std::function<void(const Session&, int64_t index)>;

// Runs `work` for case after case until the time is over, or for each of settings.lines. Prints findings as they come
// and a summary; returns the exit status.
int supervise(const Settings& settings, const Work& work);

}  // namespace fuzz
