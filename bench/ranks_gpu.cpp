// SPDX-License-Identifier: Apache-2.0
// Times a scan whose time is cut over two GPUs of a host, over NCCL, against the whole on one of them. A JSON line for
// each way and number of groups:
//
//     flashscan_bench_ranks [--mb 256,1024] [--groups 0,4,8,16,32] [--runs 20] [--batch 8] [--channels 1024] [--calls]
//         [--nccl] [--layer linear|add|matmul|affine|selective] [--dim 4]
//
// --mb is of the largest array on each GPU, of f32; --dim of matrices. Selective scans have 16 states. A call is a
// graph that is replayed, unless --calls says otherwise. With --nccl states pass through NCCL although the GPUs reach
// each other's memory. Before each call all GPUs meet in an all-gather; the time is that of the slower one.
// libnccl.so.2 has to be found by dlopen.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <flashscan/flashscan.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int gpus = 2;

void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void check(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
}

struct Nccl {
    int (*init_all)(void** comms, int count, const int* devices);
    int (*destroy)(void* comm);
    int (*all_gather)(const void* send, void* receive, size_t count, int type, void* comm, void* stream);
};

Nccl load_nccl() {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    Nccl nccl{};
    nccl.init_all = reinterpret_cast<decltype(nccl.init_all)>(dlsym(library, "ncclCommInitAll"));
    nccl.destroy = reinterpret_cast<decltype(nccl.destroy)>(dlsym(library, "ncclCommDestroy"));
    nccl.all_gather = reinterpret_cast<decltype(nccl.all_gather)>(dlsym(library, "ncclAllGather"));
    return nccl;
}

using Id = int32_t;
struct Layer {
    const char* name;
    int32_t kind;                       // of an operator, else 0
    bool of_matrices;                   // its largest array has a matrix for each step and channel
    std::vector<Id> forward, backward;  // arguments
};
const std::vector<Layer>& layers() {
    constexpr Id gate = FLASHSCAN_ARG_GATE, input = FLASHSCAN_ARG_INPUT, output = FLASHSCAN_ARG_OUTPUT,
                 delta = FLASHSCAN_ARG_DELTA, a = FLASHSCAN_ARG_A, b = FLASHSCAN_ARG_B, c = FLASHSCAN_ARG_C,
                 grad = FLASHSCAN_GRAD;
    const std::vector<Id> with_gate{gate, input, output},
        with_gate_back{gate, output, grad | output, grad | input, grad | gate};
    static const std::vector<Layer> all{
        {"linear", 0, false, with_gate, with_gate_back},
        {"add", FLASHSCAN_OPERATOR_ADD, false, {input, output}, {grad | output, grad | input}},
        {"matmul", FLASHSCAN_OPERATOR_MATMUL, true, {input, output}, {input, output, grad | output, grad | input}},
        {"affine", FLASHSCAN_OPERATOR_AFFINE, true, with_gate, with_gate_back},
        {"selective",
         0,
         false,
         {input, delta, a, b, c, output},
         {input, delta, a, b, c, grad | output, grad | input, grad | delta, grad | a, grad | b, grad | c}}};
    return all;
}

struct Settings {
    std::vector<int64_t> mb{256, 1024};
    std::vector<int32_t> groups{0, 4, 8, 16, 32};
    int runs = 20;
    int64_t batch = 8, channels = 1024, dim = 4;
    const Layer* layer = &layers().front();
    bool calls = false, nccl = false;

    bool is_selective() const { return std::string(layer->name) == "selective"; }
    int64_t steps(int64_t rank_mb) const {
        return (rank_mb << 20) / 4 / batch / channels / (layer->of_matrices ? dim * dim : 1);
    }
    flashscan_plan* plan(int64_t steps, const flashscan_options& options) const {
        flashscan_plan* plan = nullptr;
        const auto fill = [&](auto& desc) {
            desc.struct_size = sizeof desc;
            desc.dtype = FLASHSCAN_DTYPE_F32;
            desc.batch = batch;
            desc.time = steps;
            desc.channels = channels;
        };
        if (layer->kind != 0) {
            flashscan_operator_desc desc{};
            fill(desc);
            desc.kind = layer->kind;
            desc.dim = layer->of_matrices ? dim : 0;
            check(flashscan_plan_operator(&plan, &desc, &options));
        } else if (is_selective()) {
            flashscan_selective_desc desc{};
            fill(desc);
            desc.states = 16;
            desc.flags = FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP | FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP |
                         FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS;
            check(flashscan_plan_selective(&plan, &desc, &options));
        } else {
            flashscan_linear_desc desc{};
            fill(desc);
            check(flashscan_plan_linear(&plan, &desc, &options));
        }
        return plan;
    }
};

// One way that is timed: the whole problem on one GPU, or a part for each rank with a communicator.
struct Way {
    const char* name;
    int32_t carries, groups;
    int ranks;
    bool is_communicator_of_one = false;
};

// Threads meet here, and take the larger of two times.
class Barrier {
  public:
    void wait() {
        std::unique_lock lock(mutex_);
        const int64_t round = round_;
        if (++here_ == gpus) {
            here_ = 0;
            ++round_;
            all_.notify_all();
        } else {
            all_.wait(lock, [&] { return round_ != round; });
        }
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_;
    int here_ = 0;
    int64_t round_ = 0;
};

struct Shared {
    Nccl nccl;
    std::vector<void*> comms;
    Barrier barrier;
    std::vector<std::vector<double>> us;  // of each rank
    std::string kernel;
};

class Rank {
  public:
    Rank(const Settings& settings, const Way& way, Shared& shared, int rank, int64_t steps, bool backward)
        : settings_(settings), way_(way), shared_(shared), rank_(rank), backward_(backward) {
        check(cudaSetDevice(rank));
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        check(cudaMalloc(&meeting_, 64 * (gpus + 1)));
        if (rank >= way.ranks) return;
        flashscan_comm comm{};
        comm.struct_size = sizeof comm;
        comm.kind = FLASHSCAN_COMM_NCCL;
        comm.user = shared.comms[static_cast<size_t>(rank)];
        comm.carries = way.carries;
        comm.groups = way.groups;
        if (way.is_communicator_of_one) {
            comm.kind = FLASHSCAN_COMM_CALLBACKS;
            comm.size = 1;
            // Plans with one rank gather on the host alone, while they are made.
            comm.all_gather = [](void*, const void* send, void* receive, size_t bytes, void*) {
                std::memcpy(receive, send, bytes);
                return int32_t{0};
            };
        }
        flashscan_options options{};
        options.struct_size = sizeof options;
        options.backend = FLASHSCAN_BACKEND_CUDA;
        options.device = rank;
        if (way.ranks > 1 || way.is_communicator_of_one) options.communicator = &comm;
        plan_ = settings.plan(steps, options);
        const int32_t pass = backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
        for (const Id id : backward ? settings.layer->backward : settings.layer->forward) {
            size_t bytes = 0;
            check(flashscan_plan_arg_bytes(plan_, pass, id, &bytes));
            void* memory = nullptr;
            check(cudaMalloc(&memory, bytes));
            arguments_.push_back({id, 0, memory, bytes});
            check(cudaMemset(memory, id == FLASHSCAN_ARG_A ? 0xbc : 0x3c, bytes));  // small numbers; A is negative
        }
        flashscan_pass_info info{};
        info.struct_size = sizeof info;
        check(flashscan_plan_info(plan_, pass, &info));
        if (rank == way.ranks - 1) shared.kernel = std::string(info.kernel) + ": " + info.detail;
        check(cudaDeviceSynchronize());
    }
    ~Rank() {
        cudaStreamSynchronize(stream_);
        if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
        flashscan_plan_destroy(plan_);
        for (const flashscan_arg& argument : arguments_) cudaFree(argument.data);
        cudaFree(meeting_);
        cudaStreamDestroy(stream_);
    }
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    void time() {
        const bool works = rank_ < way_.ranks;
        if (works && !settings_.calls) capture();
        cudaEvent_t begin = nullptr, end = nullptr;
        check(cudaEventCreate(&begin));
        check(cudaEventCreate(&end));
        for (int run = -3; run < settings_.runs; ++run) {
            shared_.barrier.wait();
            auto* const memory = static_cast<char*>(meeting_);
            if (shared_.nccl.all_gather(memory, memory + 64, 64, 0, shared_.comms[static_cast<size_t>(rank_)],
                                        stream_) != 0)
                throw std::runtime_error("ncclAllGather failed");
            check(cudaEventRecord(begin, stream_));
            if (works) call();
            check(cudaEventRecord(end, stream_));
            check(cudaStreamSynchronize(stream_));
            float ms = 0;
            check(cudaEventElapsedTime(&ms, begin, end));
            if (run >= 0) shared_.us[static_cast<size_t>(rank_)].push_back(1e3 * static_cast<double>(ms));
        }
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
    }

  private:
    void call() {
        if (executable_ != nullptr) return check(cudaGraphLaunch(executable_, stream_));
        check(flashscan_execute(plan_, backward_ ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD, arguments_.data(),
                                static_cast<int32_t>(arguments_.size()), stream_));
    }
    void capture() {
        call();
        check(cudaStreamSynchronize(stream_));
        cudaGraph_t graph = nullptr;
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        call();
        check(cudaStreamEndCapture(stream_, &graph));
        check(cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority));
        check(cudaGraphDestroy(graph));
    }

    const Settings& settings_;
    const Way& way_;
    Shared& shared_;
    int rank_;
    bool backward_;
    cudaStream_t stream_ = nullptr;
    cudaGraphExec_t executable_ = nullptr;
    void* meeting_ = nullptr;
    flashscan_plan* plan_ = nullptr;
    std::vector<flashscan_arg> arguments_;
};

// The median over runs of the slower rank's time.
double time_way(const Settings& settings, const Way& way, Shared& shared, int64_t steps, bool backward, double& least,
                std::vector<double>& ranks_us) {
    shared.us.assign(gpus, {});
    std::vector<std::thread> threads;
    for (int rank = 0; rank < gpus; ++rank)
        threads.emplace_back([&, rank] {
            try {
                Rank mine(settings, way, shared, rank, steps, backward);
                shared.barrier.wait();
                mine.time();
                shared.barrier.wait();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "rank %d of %s: %s\n", rank, way.name, error.what());
                std::_Exit(1);  // the other rank would wait
            }
        });
    for (std::thread& thread : threads) thread.join();
    const auto median_of = [](std::vector<double> us) {
        std::sort(us.begin(), us.end());
        return us[us.size() / 2];
    };
    ranks_us.clear();
    for (const std::vector<double>& us : shared.us) ranks_us.push_back(median_of(us));
    std::vector<double> slower;
    for (size_t i = 0; i < shared.us[0].size(); ++i) slower.push_back(std::max(shared.us[0][i], shared.us[1][i]));
    least = *std::min_element(slower.begin(), slower.end());
    return median_of(slower);
}

template <typename T>
std::vector<T> numbers_of(const char* text) {
    std::vector<T> numbers;
    for (char* end = nullptr; *text != 0; text = *end == ',' ? end + 1 : end)
        numbers.push_back(static_cast<T>(std::strtoll(text, &end, 10)));
    return numbers;
}

const Layer& layer_of(const std::string& name) {
    for (const Layer& layer : layers())
        if (layer.name == name) return layer;
    throw std::runtime_error("--layer " + name + " is unknown; accepted are linear, add, matmul, affine and selective");
}

Settings settings_of(int count, char** words) {
    Settings s;
    for (int i = 1; i < count; ++i) {
        const std::string name = words[i];
        if (name == "--calls" || name == "--nccl") {
            (name == "--calls" ? s.calls : s.nccl) = true;
            continue;
        }
        if (i + 1 == count) throw std::runtime_error(name + " needs a value");
        const char* value = words[++i];
        if (name == "--mb")
            s.mb = numbers_of<int64_t>(value);
        else if (name == "--groups")
            s.groups = numbers_of<int32_t>(value);
        else if (name == "--runs")
            s.runs = std::atoi(value);
        else if (name == "--batch")
            s.batch = std::atoll(value);
        else if (name == "--channels")
            s.channels = std::atoll(value);
        else if (name == "--dim")
            s.dim = std::atoll(value);
        else if (name == "--layer")
            s.layer = &layer_of(value);
        else
            throw std::runtime_error(
                name +
                " is unknown; accepted are --mb --groups --runs --batch --channels --calls --nccl --layer --dim");
    }
    return s;
}

void run(const Settings& settings) {
    int count = 0;
    check(cudaGetDeviceCount(&count));
    if (count < gpus) throw std::runtime_error("needs two GPUs");
    Shared shared;
    shared.nccl = load_nccl();
    shared.comms.resize(gpus);
    if (shared.nccl.init_all(shared.comms.data(), gpus, nullptr) != 0)
        throw std::runtime_error("ncclCommInitAll failed");
    if (settings.nccl) setenv("NCCL_P2P_DISABLE", "1", 1);  // NCCL has read it by now, the library has not
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0));
    for (const int64_t mb : settings.mb)
        for (const bool backward : {false, true}) {
            const int64_t steps = settings.steps(mb);
            std::vector<Way> ways{{"one", 0, 0, 1},
                                  {"communicator_of_one", 0, 0, 1, true},
                                  {"gathered", FLASHSCAN_CARRIES_GATHERED, 0, gpus}};
            // Backward of a selective scan is gathered in every plan.
            for (const int32_t groups : backward&& settings.is_selective() ? std::vector<int32_t>() : settings.groups)
                ways.push_back({"wavefront", FLASHSCAN_CARRIES_WAVEFRONT, groups, gpus});
            ways.push_back({"chosen", 0, 0, gpus});
            double whole = 0;
            for (const Way& way : ways) {
                double least = 0;
                std::vector<double> ranks_us;
                const double us =
                    time_way(settings, way, shared, way.ranks == 1 ? gpus * steps : steps, backward, least, ranks_us);
                if (way.ranks == 1 && !way.is_communicator_of_one) whole = us;
                std::printf(
                    "{\"layer\": \"%s\", \"dim\": %lld, \"pass\": \"%s\", \"way\": \"%s\", \"groups\": %d, \"ranks\": "
                    "%d, \"rank_mb\": %lld, \"batch\": "
                    "%lld, \"channels\": %lld, \"us\": %.1f, \"min_us\": %.1f, \"ranks_us\": [%.1f, %.1f], \"of_one\": "
                    "%.3f, \"graph\": %s, "
                    "\"device\": \"%s\", \"kernel\": \"%s\"}\n",
                    settings.layer->name, static_cast<long long>(settings.layer->of_matrices ? settings.dim : 0),
                    backward ? "backward" : "forward", way.name, way.groups, way.ranks, static_cast<long long>(mb),
                    static_cast<long long>(settings.batch), static_cast<long long>(settings.channels), us, least,
                    ranks_us[0], ranks_us[1], us / whole, settings.calls ? "false" : "true", properties.name,
                    shared.kernel.c_str());
                std::fflush(stdout);
            }
        }
    for (void* comm : shared.comms) shared.nccl.destroy(comm);
}

}  // namespace

int main(int count, char** words) {
    try {
        run(settings_of(count, words));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
