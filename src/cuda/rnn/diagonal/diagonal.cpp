// SPDX-License-Identifier: Apache-2.0
#include "cuda/rnn/diagonal/diagonal.h"

namespace flashscan::cuda {
std::unique_ptr<RnnKernel> make_rnn_diagonal(const RnnProblem& problem, const Options& options, std::string& refusal) {
    if (problem.head_dim != 1) {
        refusal = fmt::format("head_dim is {}; takes heads of one unit", problem.head_dim);
        return nullptr;
    }
    const DeviceScope scope(options.device);
    return std::make_unique<RnnDiagonal>(problem, options);
}

}  // namespace flashscan::cuda
