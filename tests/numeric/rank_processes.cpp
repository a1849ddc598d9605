// SPDX-License-Identifier: Apache-2.0
// One sequence over processes that talk through sockets: the bits are those of threads.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;

bool send_all(int socket, const void* data, size_t bytes) {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
        const ssize_t sent = write(socket, at, bytes);
        if (sent <= 0) return false;
        at += sent, bytes -= static_cast<size_t>(sent);
    }
    return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
    for (char* at = static_cast<char*>(data); bytes > 0;) {
        const ssize_t got = read(socket, at, bytes);
        if (got <= 0) return false;
        at += got, bytes -= static_cast<size_t>(got);
    }
    return true;
}

// Rank 0 has a socket to each other rank, which have one to it.
struct Wires {
    int32_t rank = 0;
    std::vector<int> sockets;
};

int32_t all_gather(void* user, const void* send, void* receive, size_t bytes, void*) {
    const auto& wires = *static_cast<const Wires*>(user);
    auto* all = static_cast<char*>(receive);
    if (wires.rank != 0)
        return send_all(wires.sockets[0], send, bytes) && receive_all(wires.sockets[0], receive, 3 * bytes) ? 0 : 1;
    std::memcpy(all, send, bytes);
    for (size_t i = 0; i < wires.sockets.size(); ++i)
        if (!receive_all(wires.sockets[i], all + (i + 1) * bytes, bytes)) return 2;
    for (const int socket : wires.sockets)
        if (!send_all(socket, receive, 3 * bytes)) return 3;
    return 0;
}

// The bytes of what a rank writes, both passes.
flashscan_comm comm_of(int32_t rank, int32_t size, Wires& wires) {
    flashscan_comm comm{};
    comm.struct_size = sizeof comm;
    comm.kind = FLASHSCAN_COMM_CALLBACKS;
    comm.rank = rank;
    comm.size = size;
    comm.user = &wires;
    comm.all_gather = all_gather;
    return comm;
}

Bytes run_rank(const Problem& whole, const Data& data, const std::vector<int64_t>& lengths, flashscan_comm comm) {
    const RankPart part = part_of(whole, data, lengths, static_cast<size_t>(comm.rank));
    flashscan_options options = options_of(part.problem, FLASHSCAN_BACKEND_CPU, "");
    options.communicator = &comm;
    const Plan plan(desc_of(part.problem), options);
    if (!plan) return {};
    Bytes bytes;
    for (const bool backward : {false, true}) {
        Call call = backward ? backward_call(part.problem, plan, FLASHSCAN_BACKEND_CPU, part.data, Guard::end)
                             : forward_call(part.problem, plan, FLASHSCAN_BACKEND_CPU, part.data, Guard::end);
        if (call.run(plan.get()) != FLASHSCAN_STATUS_OK) return {};
        for (const auto& [id, written] : call.output_bytes()) bytes.insert(bytes.end(), written.begin(), written.end());
    }
    return bytes;
}

TEST(RankProcesses, GiveTheBitsOfThreads) {
    constexpr int32_t size = 3;
    const Problem p = problem_of("linear f32 BTC b2 t500 c7 form-logit state-in state-out seed8");
    const std::vector<int64_t> lengths{130, 70, 300};
    Data data = make_data(p);
    data.output = data.input;

    std::vector<Bytes> threads(size);
    Meeting meeting(size);
    on_ranks(size, [&](int32_t rank) {
        threads[static_cast<size_t>(rank)] = run_rank(p, data, lengths, meeting.comm(rank));
    });

    Wires first;
    std::vector<pid_t> children;
    for (int32_t rank = 1; rank < size; ++rank) {
        int pair[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            Wires wires{rank, {pair[1]}};
            const Bytes bytes = run_rank(p, data, lengths, comm_of(rank, size, wires));
            const uint64_t count = bytes.size();
            const bool told = send_all(pair[1], &count, sizeof count) && send_all(pair[1], bytes.data(), count);
            _exit(told ? 0 : 1);
        }
        close(pair[1]);
        first.sockets.push_back(pair[0]);
        children.push_back(child);
    }
    EXPECT_EQ(run_rank(p, data, lengths, comm_of(0, size, first)), threads[0]);
    for (size_t i = 0; i < children.size(); ++i) {
        uint64_t count = 0;
        ASSERT_TRUE(receive_all(first.sockets[i], &count, sizeof count));
        Bytes bytes(count);
        ASSERT_TRUE(receive_all(first.sockets[i], bytes.data(), count));
        EXPECT_FALSE(bytes.empty());
        EXPECT_EQ(bytes, threads[i + 1]);
        close(first.sockets[i]);
        int status = -1;
        EXPECT_EQ(waitpid(children[i], &status, 0), children[i]);
        EXPECT_EQ(status, 0);
    }
}

}  // namespace
}  // namespace numeric
