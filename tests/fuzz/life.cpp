// SPDX-License-Identifier: Apache-2.0
// Plans in the life of a process: threads, fork, small stacks, floating-point modes, callbacks that fail, libraries
// that come and go.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "fuzz/allocations.h"
#include "fuzz/parts.h"
#include "fuzz/scene.h"
#include "support/operator_check.h"

namespace fuzz {
namespace {

using namespace support;

constexpr bool sanitized = FLASHSCAN_FUZZ_SANITIZED;

struct Stage {
    const Session& session;
    Random random;
    int32_t backend;

    bool announce(const char* scenario, const std::string& line) const {
        const Settings& settings = session.settings();
        const bool runs = session.announce(
            fmt::format("life {}--problem \"{} {}\"", settings.cuda ? "--backend cuda " : "", scenario, line));
        if (runs) session.count(scenario);
        return runs;
    }
    void expect(const std::string& wrong, const char* where) const {
        if (!wrong.empty()) session.finding(fmt::format("{}: {}", where, wrong));
    }
};

// Threads that create, execute and destroy plans of their own.
void threads(Stage& stage, const std::string& line) {
    Scene scene(line, stage.backend);
    std::vector<std::thread> list;
    std::vector<std::string> wrong(4);
    for (std::string& text : wrong)
        list.emplace_back([&scene, &text] {
            try {
                for (int i = 0; i < 3; ++i) text += scene.repeat();
            } catch (const std::exception& error) {
                text += error.what();
            }
        });
    for (std::thread& thread : list) thread.join();
    for (const std::string& text : wrong) stage.expect(text, "a thread among others");
}

void prepare_and_expect(Stage& stage, Scene& scene, const char* where) {
    for (size_t i = 0; i < scene.calls().size(); ++i) {
        scene.calls()[i].prepare();
        const flashscan_status status = scene.execute(i);
        stage.expect(status == FLASHSCAN_STATUS_OK ? scene.wrong(i) : flashscan_last_error(), where);
    }
}

// A child that was forked after plans had used threads.
void forked(Stage& stage, const std::string& line) {
    Scene scene(line, stage.backend);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        int code = 0;
        try {
            prepare_and_expect(stage, scene, "a plan of before in the child of a fork");
            stage.expect(scene.repeat(), "a new plan in the child of a fork");
        } catch (const std::exception& error) {
            stage.expect(error.what(), "in the child of a fork");
            code = 1;
        }
        _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) stage.expect(fmt::format("wait status {:#x}", status), "the child of a fork");
    prepare_and_expect(stage, scene, "after a fork");
}

// 64 kB of stack above a megabyte that nobody may touch.
void small_stack(Stage& stage, const std::string& line) {
    constexpr size_t below = 1 << 20, bytes = 64 << 10;
    Scene scene(line, stage.backend);
    void* memory = mmap(nullptr, below + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* stack = static_cast<unsigned char*>(memory) + below;
    if (memory == MAP_FAILED || mprotect(stack, bytes, PROT_READ | PROT_WRITE) != 0) return;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, bytes);
    struct Task {
        Scene& scene;
        size_t call;
        flashscan_status status;
    };
    for (size_t i = 0; i < scene.calls().size(); ++i) {
        Task task{scene, i, FLASHSCAN_STATUS_OK};
        scene.calls()[i].prepare();
        const auto run = [](void* argument) -> void* {
            auto* one = static_cast<Task*>(argument);
            one->status = one->scene.execute(one->call);
            return nullptr;
        };
        pthread_t thread{};
        if (pthread_create(&thread, &attributes, run, &task) != 0) continue;
        pthread_join(thread, nullptr);
        stage.expect(task.status == FLASHSCAN_STATUS_OK ? scene.wrong(i) : "failed", "on a stack of 64 kB");
    }
    pthread_attr_destroy(&attributes);
    munmap(memory, below + bytes);
}

#if defined(__x86_64__)
unsigned int mode() { return _mm_getcsr() & ~0x3fU; }
void set_mode(unsigned int value) { _mm_setcsr(value); }
constexpr unsigned int flush_to_zero = 0x8040, upward = 0x4000, downward = 0x2000, toward_zero = 0x6000;
#else
unsigned int mode() { return static_cast<unsigned int>(std::fegetround()); }
void set_mode(unsigned int value) { std::fesetround(static_cast<int>(value)); }
constexpr unsigned int flush_to_zero = 0, upward = FE_UPWARD, downward = FE_DOWNWARD, toward_zero = FE_TOWARDZERO;
#endif

// Modes that the caller sets after the library's threads exist: the same bits on every run, and the mode stays.
void modes(Stage& stage, const std::string& line) {
    Scene scene(line, stage.backend);
    const unsigned int usual = mode(), set = stage.random.of({flush_to_zero, upward, downward, toward_zero});
    for (size_t i = 0; i < scene.calls().size(); ++i) {
        std::map<int32_t, Bytes> first;
        for (int run = 0; run < 8; ++run) {
            Call& call = scene.calls()[i];
            call.prepare();
            set_mode(usual | set);
            const unsigned int before = mode();
            const flashscan_status status = scene.execute(i);
            const unsigned int after = mode();
            set_mode(usual);
            if (before != after) stage.expect(fmt::format("mode {:#x} became {:#x}", before, after), "a call");
            call.collect();
            if (status != FLASHSCAN_STATUS_OK) stage.expect(flashscan_last_error(), "in another floating-point mode");
            if (run == 0) first = call.output_bytes();
            if (first != call.output_bytes()) {
                stage.expect("two runs gave different bits", fmt::format("in floating-point mode {:#x}", set).c_str());
                break;
            }
        }
    }
    prepare_and_expect(stage, scene, "after other floating-point modes");
}

// Complex products whose n-th call fails.
int64_t calls_left = 0;
int32_t multiply(void*, const void* lhs, int64_t lhs_stride, const void* rhs, int64_t rhs_stride, void* out,
                 int64_t out_stride, int64_t count, void*) {
    if (--calls_left == 0) return 7;
    for (int64_t i = 0; i < count; ++i) {
        const auto* a = reinterpret_cast<const double*>(static_cast<const char*>(lhs) + i * lhs_stride);
        const auto* b = reinterpret_cast<const double*>(static_cast<const char*>(rhs) + i * rhs_stride);
        auto* c = reinterpret_cast<double*>(static_cast<char*>(out) + i * out_stride);
        c[0] = a[0] * b[0] - a[1] * b[1], c[1] = a[0] * b[1] + a[1] * b[0];
    }
    return 0;
}

void callbacks(Stage& stage, const std::string& line) {
    const OperatorProblem p = operator_problem_of(line);
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 16;
    custom.batched = multiply;
    flashscan_operator_desc desc = desc_of(p);
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.dtype = 0;
    desc.custom = &custom;
    const Plan plan(desc, options_of(p, stage.backend, ""));
    if (!plan) return stage.expect(plan.message(), "a plan of a callback");
    const OperatorData data = make_data(p);
    Call call = forward_call(p, plan, stage.backend, data, Guard::end);
    calls_left = 0;
    if (call.run(plan.get()) != FLASHSCAN_STATUS_OK) return stage.expect(flashscan_last_error(), "a callback");
    const auto expected = call.output_bytes();
    for (int64_t n = 1; n < 200; ++n) {
        calls_left = n;
        const flashscan_status status = call.run(plan.get());
        const bool fired = calls_left <= 0;
        if (!fired && status != FLASHSCAN_STATUS_OK) stage.expect(flashscan_last_error(), "a callback that succeeds");
        if (!fired) break;
        if (status != FLASHSCAN_STATUS_CALLBACK_FAILED)
            stage.expect(flashscan_status_name(status), fmt::format("callback {} failed", n).c_str());
        if (!call.damage().empty()) stage.expect(call.damage(), "a callback that fails");
    }
    calls_left = 0;
    const flashscan_status status = call.run(plan.get());
    if (status != FLASHSCAN_STATUS_OK || call.output_bytes() != expected)
        stage.expect(flashscan_status_name(status), "after callbacks that failed");
}

// The library loaded, used and closed again and again, by a program that does not link it.
void reload(Stage& stage, const std::string&) {
    char path[4096] = {};
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    const std::string command = std::string(path, static_cast<size_t>(length)) + "_reload " FLASHSCAN_FUZZ_LIBRARY;
    const int status = std::system(command.c_str());
    if (status != 0) stage.expect(fmt::format("exit status {:#x}", status), command.c_str());
}

void failing_allocations(Stage& stage, const std::string& line) {
    const std::string wrong = exhaust_allocations(line, stage.backend);
    stage.expect(wrong, "allocations that fail");
}

struct Scenario {
    const char* name;
    void (*run)(Stage&, const std::string& line);
    bool cuda, with_sanitizers;
};

// Sanitizers need larger stacks, their own malloc, and to be there before the library is. GCC 12's hold locks of their
// allocator over a fork when another thread is just ending, on which the child then waits for ever.
constexpr Scenario scenarios[] = {{"threads", threads, true, true},
                                  {"fork", forked, false, false},
                                  {"stack", small_stack, false, false},
                                  {"modes", modes, false, true},
                                  {"callbacks", callbacks, false, true},
                                  {"reload", reload, false, false},
                                  {"allocations", failing_allocations, false, false}};

bool applies(const Scenario& scenario, bool cuda) {
    return (scenario.cuda || !cuda) && (scenario.with_sanitizers || !sanitized);
}

}  // namespace

void life_case(const Session& session, int64_t index) {
    const Settings& settings = session.settings();
    Stage stage{session, Random(settings.seed, static_cast<uint64_t>(index)),
                settings.cuda ? FLASHSCAN_BACKEND_CUDA : FLASHSCAN_BACKEND_CPU};
    if (!settings.lines.empty()) {
        const std::string& line = settings.lines[static_cast<size_t>(index)];
        const size_t space = line.find(' ');
        for (const Scenario& scenario : scenarios)
            if (line.substr(0, space) == scenario.name && applies(scenario, settings.cuda)) {
                if (stage.announce(scenario.name, line.substr(space + 1))) scenario.run(stage, line.substr(space + 1));
            }
        return;
    }
    const Scenario& scenario = scenarios[index % static_cast<int64_t>(std::size(scenarios))];
    if (!applies(scenario, settings.cuda)) return;
    std::string line = draw_scene(stage.random, scenario.run == failing_allocations ? 1 : 4);
    if (scenario.run == callbacks)
        line = fmt::format("operator mul {} fwd c128 b{} t{} c{} state-in state-out{} seed{}",
                           stage.random.of({"inclusive", "exclusive", "reduction"}), stage.random.between(1, 3),
                           stage.random.between(0, 300), stage.random.between(1, 4),
                           stage.random.chance(0.5) ? " reverse" : "", stage.random.below(1000));
    if (stage.announce(scenario.name, line)) scenario.run(stage, line);
}

}  // namespace fuzz
