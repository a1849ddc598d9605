// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "problem.h"
#include "stream.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

int64_t place(const Box& box, int64_t index) {
    const int64_t inner = index % box.extent[2], rest = index / box.extent[2];
    return rest / box.extent[1] * box.stride[0] + rest % box.extent[1] * box.stride[1] + inner * box.stride[2];
}

// The value of the first line of a /proc file that starts with `key`.
std::string proc_value(const char* path, const std::string& key) {
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);)
        if (text.starts_with(key)) {
            const size_t value = text.find_first_not_of(" \t", text.find(':') + 1);
            return value == std::string::npos ? "" : text.substr(value);
        }
    return "";
}

class CpuMachine final : public Machine {
  public:
    explicit CpuMachine(int threads) : threads_(threads > 0 ? threads : omp_get_max_threads()) {}

    std::string device() const override {
        const std::string model = proc_value("/proc/cpuinfo", "model name");
        return fmt::format("{}, {} threads", model.empty() ? "CPU" : model, threads_);
    }
    std::string driver() const override { return ""; }

    size_t cache_bytes() const override {
        const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
        return bytes > 0 ? static_cast<size_t>(bytes) : size_t{32} << 20;
    }

    size_t free_bytes() const override {
        const std::string kilobytes = proc_value("/proc/meminfo", "MemAvailable");
        return kilobytes.empty() ? size_t{1} << 30 : std::stoull(kilobytes) * 1024;
    }

    void* stream() const override { return nullptr; }

    void* allocate(size_t bytes) override {
        constexpr size_t page = 4096;
        void* memory = std::aligned_alloc(page, (bytes + page - 1) / page * page);
        if (memory == nullptr) throw Failure(fmt::format("no host memory for {} bytes", bytes));
        return memory;
    }
    void release(void* memory) override { std::free(memory); }
    void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void synchronize() override {}
    void launch_nothing() override {}

    void poison(void* memory, size_t bytes) override { write_all(memory, bytes, 0xff); }

    void fill(const Box& box, Kind kind, uint64_t seed) override {
        const bool complex = is_complex(box.dtype);
#pragma omp parallel for num_threads(threads_)
        for (int64_t i = 0; i < box.count(); ++i)
            store(box.data, box.dtype, place(box, i), random_value(kind, complex, static_cast<uint64_t>(i), seed));
    }

    std::vector<std::byte> gather(const Box& box) override {
        const auto size = static_cast<size_t>(size_of(box.dtype));
        std::vector<std::byte> dense(static_cast<size_t>(box.count()) * size);
        for (int64_t i = 0; i < box.count(); ++i)
            std::memcpy(dense.data() + static_cast<size_t>(i) * size,
                        static_cast<const char*>(box.data) + place(box, i) * static_cast<int64_t>(size), size);
        return dense;
    }

    Runs time(const Call& call, int runs, double budget_s) override {
        const Clock::time_point begin = Clock::now();
        call();
        Runs result;
        for (int i = 0; i < runs; ++i) {
            if (i >= 3 && us_since(begin) > budget_s * 1e6) {
                result.cut_short = true;
                break;
            }
            if (flush_caches) flush();
            const Clock::time_point start = Clock::now();
            call();
            result.us.push_back(us_since(start));
        }
        return result;
    }

    double burst_us(const Call&) override { return 0; }
    Call record_graph(const Call&) override { throw Failure("--graph needs the cuda backend"); }

    double timer_floor_us() override {
        std::vector<double> us(1000);
        for (double& value : us) value = us_since(Clock::now());
        return median(us);
    }

  protected:
    Ceiling measure_ceiling(bool backward, size_t array_bytes, int runs) override {
        const size_t bytes = (array_bytes + 63) / 64 * 64;
        const int num_arrays = backward ? 5 : 3;
        std::vector<Buffer> buffers;
        for (int i = 0; i < num_arrays; ++i) {
            buffers.emplace_back(*this, bytes);
            write_all(buffers.back().get(), bytes, 0x3f);
        }
        const auto at = [&](int i) { return static_cast<void*>(buffers[static_cast<size_t>(i)].get()); };
        const StreamArrays arrays = backward ? StreamArrays{{at(0), at(1), at(2)}, {at(3), at(4)}, bytes}
                                             : StreamArrays{{at(0), at(1), nullptr}, {at(2), nullptr}, bytes};
        Ceiling best;
        for (int i = 0; i < num_host_streams; ++i) {
            const HostStream& stream = host_streams[i];
            if (!stream.available()) continue;
            const double us = median(time([&] { stream.run(arrays, backward, threads_); }, runs, 2.0).us);
            if (best.us == 0 || us < best.us) best = {0, us, stream.name};
        }
        best.gbps = static_cast<double>(bytes) * num_arrays / best.us * 1e-3;
        return best;
    }

  private:
    void flush() {
        const size_t bytes = std::clamp(2 * cache_bytes(), size_t{64} << 20, size_t{512} << 20);
        if (flush_buffer_.empty()) flush_buffer_.resize(bytes);
        write_all(flush_buffer_.data(), bytes, ++flush_value_);
    }

    void write_all(void* memory, size_t bytes, int value) const {
        constexpr size_t chunk = 1 << 20;
        const auto chunks = static_cast<int64_t>((bytes + chunk - 1) / chunk);
#pragma omp parallel for num_threads(threads_)
        for (int64_t i = 0; i < chunks; ++i) {
            const size_t begin = static_cast<size_t>(i) * chunk;
            std::memset(static_cast<char*>(memory) + begin, value, std::min(chunk, bytes - begin));
        }
    }

    int threads_;
    std::vector<char> flush_buffer_;
    unsigned char flush_value_ = 0;
};

}  // namespace

std::unique_ptr<Machine> make_cpu_machine(int threads) { return std::make_unique<CpuMachine>(threads); }

}  // namespace bench
