// SPDX-License-Identifier: Apache-2.0
#include "fuzz/session.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <stdexcept>

namespace fuzz {
namespace {

constexpr size_t line_bytes = 4096, log_bytes = 1 << 20, counter_count = 64;

struct Counter {
    char name[40];
    std::atomic<int64_t> value;
};

// Lies in memory that the processes share.
struct Shared {
    std::atomic<int64_t> next, done, findings, findings_of_line;
    std::atomic<double> end, started;  // of the run; of the case that runs, 0: none
    char line[line_bytes];
    std::atomic<size_t> used;
    char log[log_bytes];  // findings, each with a closing zero
    Counter counters[counter_count];
};
Shared* shared = nullptr;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One problem may be wrong in many places: the first ones tell.
constexpr int64_t findings_per_line = 2;

void record(const std::string& what) {
    if (++shared->findings_of_line > findings_per_line) return;
    const std::string text = fmt::format("{}\n    {}", shared->line, what);
    std::printf("FINDING %s\n", text.c_str());
    std::fflush(stdout);
    ++shared->findings;
    const size_t start = shared->used.fetch_add(text.size() + 1);
    if (start + text.size() < log_bytes) std::memcpy(shared->log + start, text.c_str(), text.size() + 1);
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else if (static_cast<unsigned char>(c) >= 0x20)
            out += c;
    }
    return out + "\"";
}

class Supervisor {
  public:
    Supervisor(const Settings& settings, const Work& work) : settings_(settings), work_(work), start_(now()) {
        file_ = watches() ? memfd_create("flashscan_fuzz", 0) : settings.child;
        if (file_ < 0 || (watches() && ftruncate(file_, sizeof(Shared)) != 0)) throw std::bad_alloc();
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        shared = static_cast<Shared*>(memory);
        if (!watches()) return;
        new (memory) Shared{};
        shared->next = settings.first;
        shared->end = settings.lines.empty() ? start_ + settings.seconds : start_ + 1e9;
    }

    int run() {
        if (!watches()) work_on();
        while (more()) watch(start_child());
        summarise();
        return shared->findings == 0 ? 0 : 1;
    }

  private:
    int64_t last() const {
        if (!settings_.lines.empty()) return static_cast<int64_t>(settings_.lines.size());
        return settings_.cases < 0 ? INT64_MAX : settings_.first + settings_.cases;
    }
    bool more() const { return now() < shared->end && shared->next < last() && shared->findings < settings_.findings; }

    bool watches() const { return settings_.child < 0; }

    pid_t start_child() const {
        std::vector<std::string> texts = settings_.arguments;
        texts.insert(texts.end(), {"--child", std::to_string(file_)});
        std::vector<char*> pointers;
        for (std::string& text : texts) pointers.push_back(text.data());
        pointers.push_back(nullptr);
        std::fflush(nullptr);
        pid_t child = 0;
        if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) != 0)
            throw std::runtime_error("no child process");
        return child;
    }

    [[noreturn]] void work_on() const {
        const Session session(settings_);
        const int64_t block = settings_.lines.empty() ? settings_.block : 1, first = shared->next;
        while (more() && shared->next / block == first / block) {
            const int64_t index = shared->next++;
            shared->started = now();
            (void)session.announce(
                fmt::format("{} --seed {} --first {} --cases 1", settings_.part, settings_.seed, index));
            try {
                work_(session, index);
            } catch (const std::exception& error) {
                record(fmt::format("exception: {}", error.what()));
            }
            shared->started = 0;
            ++shared->done;
        }
        std::fflush(nullptr);
        _exit(0);
    }

    void watch(pid_t child) const {
        int status = 0;
        bool slow = false;
        while (waitpid(child, &status, WNOHANG) == 0) {
            const double started = shared->started;
            if (started > 0 && now() - started > settings_.case_seconds && !slow) {
                slow = true;
                kill(child, SIGKILL);
            }
            usleep(2000);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
        ++shared->done;
        shared->started = 0;
        if (slow)
            record(fmt::format("took more than {} s", settings_.case_seconds));
        else if (WIFSIGNALED(status))
            record(fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
        else
            record(fmt::format("ended with status {}", WEXITSTATUS(status)));
    }

    void summarise() const {
        std::map<std::string, int64_t> counts;
        for (const Counter& counter : shared->counters)
            if (counter.name[0] != '\0') counts[counter.name] = counter.value;
        std::string parts, json_counts, json_findings;
        for (const auto& [name, value] : counts) {
            parts += fmt::format(", {} {}", value, name);
            json_counts += fmt::format(", {}: {}", quoted(name), value);
        }
        const double seconds = now() - start_;
        std::printf("%s: %lld cases, %lld findings (%.1f s, seed %llu%s)\n", settings_.part.c_str(),
                    static_cast<long long>(shared->done), static_cast<long long>(shared->findings), seconds,
                    static_cast<unsigned long long>(settings_.seed), parts.c_str());
        if (settings_.json.empty()) return;
        for (size_t at = 0; at < std::min(shared->used.load(), log_bytes - 1);) {
            const std::string text = shared->log + at;
            json_findings += (at == 0 ? "" : ", ") + quoted(text);
            at += text.size() + 1;
        }
        std::ofstream(settings_.json) << fmt::format(
            "{{\"part\": {}, \"backend\": \"{}\", \"seed\": {}, \"seconds\": {:.1f}, \"cases\": {}{}, \"findings\": "
            "[{}]}}\n",
            quoted(settings_.part), settings_.cuda ? "cuda" : "cpu", settings_.seed, seconds, shared->done.load(),
            json_counts, json_findings);
    }

    const Settings& settings_;
    const Work& work_;
    double start_;
    int file_ = -1;
};

}  // namespace

bool Session::announce(const std::string& line) const {
    for (const std::string& word : settings_.skip)
        if (line.find(word) != std::string::npos) return false;
    shared->findings_of_line = 0;
    std::strncpy(shared->line, line.c_str(), line_bytes - 1);
    return true;
}

void Session::finding(const std::string& what) const { record(what); }

void Session::count(const char* what, int64_t n) const {
    for (Counter& counter : shared->counters) {
        if (counter.name[0] == '\0') std::strncpy(counter.name, what, sizeof counter.name - 1);
        if (std::strncmp(counter.name, what, sizeof counter.name - 1) != 0) continue;
        counter.value += n;
        return;
    }
}

int supervise(const Settings& settings, const Work& work) { return Supervisor(settings, work).run(); }

}  // namespace fuzz
