// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz/loops.h"
#include "fuzz/problems.h"
#include "support/custom_scene.h"

namespace fuzz {
namespace {

using namespace support;

// Nothing looks at steps that belong to no sequence.
void spoil(const OperatorProblem& p, OperatorData& data) {
    const Value nothing = p.integers() ? of_integer(85) : std::numeric_limits<double>::quiet_NaN();
    const auto fill = [&](Values& values, int64_t t, int64_t c, int64_t size) {
        for (int64_t i = 0; i < size && !values.empty(); ++i)
            values[p.place(0, t, c, size) + static_cast<size_t>(i)] = nothing;
    };
    for (int64_t t = written_time(p, data); t < p.time; ++t)
        for (int64_t c = 0; c < p.channels; ++c) {
            fill(data.input, t, c, p.element());
            if (p.affine()) fill(data.gate, t, c, p.gate_element());
            if (p.reduction()) continue;
            fill(data.grad_output, t, c, p.element());
            fill(data.output, t, c, p.element());
        }
}

// The binary logarithm of a bound of the products of any steps of the data that follow each other.
double largest_product(const OperatorProblem& p, const OperatorData& data) {
    const Values& factors = p.affine() ? data.gate : data.input;
    const int64_t size = p.affine() ? p.gate_element() : p.element(), rows = std::max<int64_t>(p.dim, 1);
    double most = 0;
    for (const Sequence& s : sequences_of(p.batch, p.time, data.offsets))
        for (int64_t c = 0; c < p.channels; ++c) {
            double product = 0;
            for (int64_t t = s.begin; t < s.end; ++t) {
                double norm = 0;
                for (int64_t i = 0; i < rows; ++i) {
                    double sum = 0;
                    for (int64_t j = 0; j < size / rows; ++j)
                        sum +=
                            std::abs(factors[p.place(s.batch, t, c, size) + static_cast<size_t>(i * size / rows + j)]);
                    norm = std::max(norm, sum);
                }
                product = std::max(0.0, product + std::log2(norm));
                most = std::max(most, product);
            }
        }
    return most;
}

// Says what is asked for. What the arithmetic or the dtype does not reach is not: elements, backward where it reads
// OUTPUT, and everything where products overflow on the way. Where products of some steps may overflow though none of
// those from the first step on does, infinity and NaN are accepted.
class Asked {
  public:
    Asked(const OperatorProblem& p, const OperatorData& data, const std::map<int32_t, Expected>& reference) : p_(p) {
        if (p.integers()) return;
        // States, inputs and gradients are below 2^20.
        far_ = products() && largest_product(p, data) > std::log2(largest(state_dtype(p.dtype))) - 20;
        for (const auto& [id, expected] : reference)
            for (size_t i = 0; id != FLASHSCAN_ARG_INDEX && i < expected.value.size(); ++i) {
                const double size = std::abs(expected.value[i]) + expected.tolerance[i];
                if (std::isinf(expected.value[i].real()) && !products()) continue;  // an identity
                if (!(size < 1e-3 * largest(state_dtype(p.dtype)))) all_ = !products();
                if (id == FLASHSCAN_ARG_OUTPUT && !(size < largest(p.dtype))) backward_ = !products();
            }
    }
    // `expected` with elements that are not asked for as they were got.
    Expected of(int32_t id, const Values& got, Expected expected) const {
        if (p_.integers() || id == FLASHSCAN_ARG_INDEX) return expected;
        const int32_t argument = id & ~FLASHSCAN_GRAD;
        const bool state = argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT;
        const double most = largest(state ? state_dtype(p_.dtype) : p_.dtype);
        const bool any = all_ && (backward_ || (id & FLASHSCAN_GRAD) == 0);
        for (size_t i = 0; i < got.size(); ++i)
            if (!any || (far_ && !std::isfinite(std::abs(got[i]))) ||
                (std::isfinite(std::abs(expected.value[i])) &&
                 !(std::abs(expected.value[i]) + expected.tolerance[i] < most))) {
                expected.value[i] = got[i];
                expected.tolerance[i] = 1;
            }
        return expected;
    }

  private:
    bool products() const { return p_.kind == FLASHSCAN_OPERATOR_MUL || p_.matmul() || p_.affine(); }
    const OperatorProblem& p_;
    bool all_ = true, backward_ = true, far_ = false;
};

// The operator built in as it is, or complex products as a custom operator on pairs of doubles.
struct Description {
    Description(const OperatorProblem& p, const std::string& form) : desc(desc_of(p)) {
        if (form.empty()) return;
        custom = support::custom::custom_of(2 * sizeof(double));
        if (form == "host") {
            custom.host = support::custom::multiply_pair;
            custom.host_adjoint = support::custom::multiply_pair_adjoint;
        } else if (form == "batched") {
            custom.batched = support::custom::multiply_pair_batched;
            custom.batched_adjoint = support::custom::multiply_pair_batched_adjoint;
        } else {
            custom.code_kind = FLASHSCAN_CODE_CUDA_SOURCE;
            custom.code = source;
            custom.code_bytes = sizeof source - 1;
            custom.name = "multiply";
            custom.adjoint_name = "multiply_adjoint";
        }
        desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
        desc.dtype = FLASHSCAN_DTYPE_F64;
        desc.custom = &custom;
    }
    static constexpr char source[] = R"(
extern "C" __device__ void multiply(const void* l, const void* r, void* out) {
    const double *a = (const double*)l, *b = (const double*)r;
    double* c = (double*)out;
    c[0] = a[0] * b[0] - a[1] * b[1];
    c[1] = a[0] * b[1] + a[1] * b[0];
}
extern "C" __device__ void multiply_adjoint(const void* l, const void* r, const void* g, void* gl, void* gr) {
    const double *a = (const double*)l, *b = (const double*)r, *d = (const double*)g;
    double *da = (double*)gl, *db = (double*)gr;
    da[0] = b[0] * d[0] + b[1] * d[1]; da[1] = b[0] * d[1] - b[1] * d[0];
    db[0] = a[0] * d[0] + a[1] * d[1]; db[1] = a[0] * d[1] - a[1] * d[0];
})";
    flashscan_custom_operator custom{};
    flashscan_operator_desc desc;
};

}  // namespace

void check_operator(const Session& session, const Line& line) {
    const OperatorProblem p = operator_problem_of(line.problem);
    OperatorData data = make_data(p);
    const std::map<int32_t, Expected> reference = reference_of(p, data, operator_loop);
    if (line.spoiled) spoil(p, data);
    const Description description(p, line.custom);
    const Asked asked(p, data, reference);
    std::vector<Target> targets = operator_targets();
    if (!line.custom.empty()) std::erase_if(targets, [](const Target& target) { return target.kernel == "reference"; });
    for (const Target& target : wanted(session, targets))
        for (const Guard guard : {Guard::end, Guard::start}) {
            if (guard == Guard::start && p.batch * p.time * p.channels * p.element() > 2000) continue;
            const OperatorOutcome outcome = run_operator(p, description.desc, target, data, guard);
            if (!completed(session, target, outcome.status, outcome.message, outcome.damage)) break;
            for (const auto& [id, values] : outcome.values) {
                const Comparison result = compare(
                    fmt::format("output {}{}", (id & FLASHSCAN_GRAD) != 0 ? "GRAD|" : "", id & ~FLASHSCAN_GRAD),
                    extents_of(p, id), written_time(p, data, id), values, asked.of(id, values, reference.at(id)));
                session.count("comparisons");
                if (!result.ok()) session.finding(text_of(target) + ": " + result.sentence);
            }
        }
}

}  // namespace fuzz
