// SPDX-License-Identifier: Apache-2.0
// Makes, describes and launches the teams of a fused recurrent network.
#include "cuda/rnn/fused/teams.h"

#include <algorithm>
#include <limits>

#include "cuda/launch/launch.h"

namespace flashscan::cuda {
namespace {

void load(const RnnTeams& teams) {
    const auto set = [&](cudaFuncAttribute attribute, int value) {
        check(cudaFuncSetAttribute(teams.kernel->function, attribute, value), "loading a kernel");
    };
    set(cudaFuncAttributeMaxDynamicSharedMemorySize, teams.kernel->shared_bytes);
    if (teams.kind == Team::cluster) set(cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

// The blocks of a team wait for each other, so all of them must run at once: the launch is a cooperative one or has
// clusters.
LaunchShape launch_shape(const RnnTeams& teams) {
    LaunchShape shape = blocks_of(teams.blocks * teams.teams, teams.kernel->threads);
    shape.shared_bytes = teams.kernel->shared_bytes;
    shape.cooperative = teams.kind == Team::grid;
    shape.cluster = teams.kind == Team::cluster ? teams.blocks : 0;
    return shape;
}

// How many teams can run at once. They are fewer than wanted where clusters do not fit all parts of the device.
int64_t resident_teams(const RnnTeams& teams) {
    if (teams.kind != Team::cluster) return teams.teams;
    return std::min<int64_t>(teams.teams, resident_clusters(teams.kernel->function, launch_shape(teams)));
}

size_t bytes_of_ring(const RnnTeams& t) {
    if (t.kind != Team::grid) return 0;
    const RnnFusedKernel& k = *t.kernel;
    const int64_t slot = k.scatters ? static_cast<int64_t>(t.blocks) * t.blocks * k.units * k.rows * 4
                                    : static_cast<int64_t>(k.rows) * k.depth * k.planes * 2;
    return static_cast<size_t>(t.teams * (k.scatters ? rnn_scatter_slots : rnn_ring_slots) * slot);
}

}  // namespace

LoadedTeams make_teams(const RnnProblem& p, Pass pass, const Options& options, std::string& refusal) {
    const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, options.device);
    LoadedTeams teams{choose_teams(rnn_fused_shapes(p.dtype, p.cell), pass, p.head_dim, p.heads, p.state_rows(),
                                   multiprocessors, options.batch_invariant),
                      {}};
    if (teams.kernel == nullptr) {
        refusal =
            fmt::format("head_dim is {}; the weights of a head in {} do not fit on {} multiprocessors{}", p.head_dim,
                        name_of(p.dtype), multiprocessors, pass == Pass::forward ? "" : " in backward");
        return teams;
    }
    if (kernel_attributes(teams.kernel->function).ptxVersion < 90) {
        refusal = "the library was built without code of compute capability 9.0";
        return teams;
    }
    load(teams);
    teams.teams = resident_teams(teams);
    teams.shape = launch_shape(teams);
    teams.ring_bytes = bytes_of_ring(teams);
    if (teams.teams == 0) refusal = fmt::format("clusters of {} blocks do not fit the device", teams.blocks);
    if (teams.jobs > std::numeric_limits<int32_t>::max())
        refusal = fmt::format("{} heads of {} rows are {} jobs; takes up to {}", p.heads, p.state_rows(), teams.jobs,
                              std::numeric_limits<int32_t>::max());
    return teams;
}

std::string describe(const RnnTeams& teams) {
    constexpr const char* kinds[] = {"block", "cluster", "part of the grid"};
    return fmt::format("{} of {} for {} rows of a head, {} of {} at once", kinds[static_cast<int>(teams.kind)],
                       teams.blocks, teams.kernel->rows, teams.teams, teams.jobs);
}

void fill_ring(const LoadedTeams& t, void* ring, void* stream) {
    fill(ring, t.kernel->scatters ? 0 : 0xff, t.ring_bytes, stream);
}

}  // namespace flashscan::cuda
