// SPDX-License-Identifier: Apache-2.0
/*
 * flashscan in C++: plans that own themselves, arguments that know their size, failures as exceptions or as a status.
 * What is computed, and the words for it, are those of flashscan.h, the manual.
 *
 *     flashscan::LinearDesc what;
 *     what.dtype = FLASHSCAN_DTYPE_F32;
 *     what.batch = 8, what.time = 1024, what.channels = 64;
 *     const flashscan::Plan plan(what);
 *     plan.forward({flashscan::in(FLASHSCAN_ARG_GATE, a), flashscan::in(FLASHSCAN_ARG_INPUT, x),
 *                   flashscan::out(FLASHSCAN_ARG_OUTPUT, h)});
 *
 * C++17, which every compiler in use has; in place of C++20's span, arguments are anything with data() and size(), spans
 * included. It may be used without exceptions: what throws is then not there, and the functions that return a
 * flashscan_status remain.
 */
#ifndef FLASHSCAN_FLASHSCAN_HPP
#define FLASHSCAN_FLASHSCAN_HPP

#include <flashscan/flashscan.h>

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if defined(__cpp_exceptions)
#define FLASHSCAN_EXCEPTIONS 1
#else
#define FLASHSCAN_EXCEPTIONS 0
#endif

namespace flashscan {

// FLASHSCAN_VERSION of the library that is loaded.
inline int32_t version() noexcept { return flashscan_version(); }

// ==== Descriptors and options: the structs of the C interface, zero but for their size ====

struct LinearDesc : flashscan_linear_desc {
    LinearDesc() noexcept : flashscan_linear_desc{} { struct_size = sizeof(flashscan_linear_desc); }
};
struct RnnDesc : flashscan_rnn_desc {
    RnnDesc() noexcept : flashscan_rnn_desc{} { struct_size = sizeof(flashscan_rnn_desc); }
};
struct OperatorDesc : flashscan_operator_desc {
    OperatorDesc() noexcept : flashscan_operator_desc{} { struct_size = sizeof(flashscan_operator_desc); }
};
struct GatedDesc : flashscan_gated_desc {
    GatedDesc() noexcept : flashscan_gated_desc{} { struct_size = sizeof(flashscan_gated_desc); }
};
struct SelectiveDesc : flashscan_selective_desc {
    SelectiveDesc() noexcept : flashscan_selective_desc{} { struct_size = sizeof(flashscan_selective_desc); }
};
struct Options : flashscan_options {
    Options() noexcept : flashscan_options{} { struct_size = sizeof(flashscan_options); }
};
struct Comm : flashscan_comm {
    Comm() noexcept : flashscan_comm{} { struct_size = sizeof(flashscan_comm); }
};
struct CustomOperator : flashscan_custom_operator {
    CustomOperator() noexcept : flashscan_custom_operator{} { struct_size = sizeof(flashscan_custom_operator); }
};

// An associative function of two elements as a custom operator of CPU plans. `combine` is called as a const object from
// several threads at once, must outlive the plan, and must not throw.
template <typename Element, typename Combine>
CustomOperator custom_operator(const Combine& combine) noexcept {
    static_assert(std::is_trivially_copyable_v<Element>, "elements are copied as bytes");
    CustomOperator made;
    made.element_bytes = sizeof(Element);
    made.state = const_cast<void*>(static_cast<const void*>(std::addressof(combine)));
    made.host = [](void* state, const void* lhs, const void* rhs, void* out) noexcept {
        *static_cast<Element*>(out) =
            (*static_cast<const Combine*>(state))(*static_cast<const Element*>(lhs), *static_cast<const Element*>(rhs));
    };
    return made;
}

// ==== Arguments ====

// An argument that is only read.
inline flashscan_arg in(int32_t id, const void* data, size_t bytes) noexcept {
    return {id, 0, const_cast<void*>(data), bytes};
}
// An argument that is written.
inline flashscan_arg out(int32_t id, void* data, size_t bytes) noexcept { return {id, 0, data, bytes}; }

// The same from anything contiguous with data() and size(): std::vector, std::array, std::span, a C array, HostBuffer.
// Memory of a GPU has a span or a pointer with its bytes.
template <typename Range>
flashscan_arg in(int32_t id, const Range& range) noexcept {
    return in(id, std::data(range), std::size(range) * sizeof(*std::data(range)));
}
template <typename Range>
flashscan_arg out(int32_t id, Range&& range) noexcept {
    static_assert(!std::is_const_v<std::remove_pointer_t<decltype(std::data(range))>>, "an output cannot be const");
    return out(id, std::data(range), std::size(range) * sizeof(*std::data(range)));
}

// Host memory as RESERVE and SCRATCH need it, aligned to 256 bytes.
class HostBuffer {
  public:
    static constexpr size_t alignment = 256;
#if FLASHSCAN_EXCEPTIONS
    // Throws std::bad_alloc.
    explicit HostBuffer(size_t bytes)
        : data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}))), size_(bytes) {}
#endif
    // data() is null if there is no memory.
    HostBuffer(size_t bytes, std::nothrow_t) noexcept
        : data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}, std::nothrow))),
          size_(data_ != nullptr ? bytes : 0) {}

    std::byte* data() noexcept { return data_.get(); }
    const std::byte* data() const noexcept { return data_.get(); }
    size_t size() const noexcept { return size_; }

  private:
    struct Free {
        void operator()(std::byte* data) const noexcept { ::operator delete (data, std::align_val_t{alignment}); }
    };
    std::unique_ptr<std::byte, Free> data_;
    size_t size_;
};

// ==== Failures ====

#if FLASHSCAN_EXCEPTIONS
// what() names the field, its value and what is accepted.
class Error : public std::runtime_error {
  public:
    Error(flashscan_status status, const char* sentence) : std::runtime_error(sentence), status_(status) {}
    flashscan_status status() const noexcept { return status_; }
    const char* status_name() const noexcept { return flashscan_status_name(status_); }

  private:
    flashscan_status status_;
};

// Throws Error with the sentence of this thread's last failure unless `status` is FLASHSCAN_STATUS_OK.
inline void check(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK) throw Error(status, flashscan_last_error());
}

// The number of devices of FLASHSCAN_BACKEND_CPU or FLASHSCAN_BACKEND_CUDA.
inline int32_t device_count(int32_t backend) {
    int32_t count = 0;
    check(flashscan_device_count(backend, &count));
    return count;
}
#endif

// ==== Plans ====

// Owns a plan, or is empty. Executing is const: any number of threads may do so at the same time.
class Plan {
  public:
    Plan() noexcept = default;
    explicit Plan(flashscan_plan* plan) noexcept : plan_(plan) {}

    flashscan_plan* get() const noexcept { return plan_.get(); }
    flashscan_plan* release() noexcept { return plan_.release(); }
    explicit operator bool() const noexcept { return plan_ != nullptr; }

    // ---- With a status; flashscan_last_error() has the sentence. `plan` is empty after a failure. ----

    static flashscan_status make(Plan& plan, const flashscan_linear_desc& what,
                                 const flashscan_options* how = nullptr) noexcept {
        return plan.take(flashscan_plan_linear, what, how);
    }
    static flashscan_status make(Plan& plan, const flashscan_rnn_desc& what,
                                 const flashscan_options* how = nullptr) noexcept {
        return plan.take(flashscan_plan_rnn, what, how);
    }
    static flashscan_status make(Plan& plan, const flashscan_operator_desc& what,
                                 const flashscan_options* how = nullptr) noexcept {
        return plan.take(flashscan_plan_operator, what, how);
    }
    static flashscan_status make(Plan& plan, const flashscan_gated_desc& what,
                                 const flashscan_options* how = nullptr) noexcept {
        return plan.take(flashscan_plan_gated, what, how);
    }
    static flashscan_status make(Plan& plan, const flashscan_selective_desc& what,
                                 const flashscan_options* how = nullptr) noexcept {
        return plan.take(flashscan_plan_selective, what, how);
    }
    flashscan_status try_forward(std::initializer_list<flashscan_arg> args, void* stream = nullptr) const noexcept {
        return try_forward(args.begin(), args.size(), stream);
    }
    flashscan_status try_forward(const flashscan_arg* args, size_t count, void* stream = nullptr) const noexcept {
        return flashscan_execute(get(), FLASHSCAN_PASS_FORWARD, args, static_cast<int32_t>(count), stream);
    }
    flashscan_status try_backward(std::initializer_list<flashscan_arg> args, void* stream = nullptr) const noexcept {
        return try_backward(args.begin(), args.size(), stream);
    }
    flashscan_status try_backward(const flashscan_arg* args, size_t count, void* stream = nullptr) const noexcept {
        return flashscan_execute(get(), FLASHSCAN_PASS_BACKWARD, args, static_cast<int32_t>(count), stream);
    }
    flashscan_status try_arg_bytes(int32_t pass, int32_t id, size_t& bytes) const noexcept {
        return flashscan_plan_arg_bytes(get(), pass, id, &bytes);
    }

#if FLASHSCAN_EXCEPTIONS
    // ---- With exceptions: Error ----

    explicit Plan(const flashscan_linear_desc& what, const flashscan_options* how = nullptr) {
        check(make(*this, what, how));
    }
    explicit Plan(const flashscan_rnn_desc& what, const flashscan_options* how = nullptr) {
        check(make(*this, what, how));
    }
    explicit Plan(const flashscan_operator_desc& what, const flashscan_options* how = nullptr) {
        check(make(*this, what, how));
    }
    explicit Plan(const flashscan_gated_desc& what, const flashscan_options* how = nullptr) {
        check(make(*this, what, how));
    }
    explicit Plan(const flashscan_selective_desc& what, const flashscan_options* how = nullptr) {
        check(make(*this, what, how));
    }
    template <typename Desc>
    Plan(const Desc& what, const flashscan_options& how) : Plan(what, &how) {}

    // `stream` is a cudaStream_t for CUDA plans.
    void forward(std::initializer_list<flashscan_arg> args, void* stream = nullptr) const {
        check(try_forward(args, stream));
    }
    void forward(const flashscan_arg* args, size_t count, void* stream = nullptr) const {
        check(try_forward(args, count, stream));
    }
    void backward(std::initializer_list<flashscan_arg> args, void* stream = nullptr) const {
        check(try_backward(args, stream));
    }
    void backward(const flashscan_arg* args, size_t count, void* stream = nullptr) const {
        check(try_backward(args, count, stream));
    }

    // The bytes that an argument needs in FLASHSCAN_PASS_FORWARD or FLASHSCAN_PASS_BACKWARD.
    size_t arg_bytes(int32_t pass, int32_t id) const {
        size_t bytes = 0;
        check(try_arg_bytes(pass, id, bytes));
        return bytes;
    }
    // The problem, the kernel and why it was chosen, and the candidates passed over.
    std::string describe() const {
        size_t length = 0;
        check(flashscan_plan_describe(get(), nullptr, 0, &length));
        std::string text(length, '\0');
        check(flashscan_plan_describe(get(), text.data(), length + 1, nullptr));
        return text;
    }
#endif

  private:
    template <typename Desc>
    flashscan_status take(flashscan_status (*create)(flashscan_plan**, const Desc*, const flashscan_options*),
                          const Desc& what, const flashscan_options* how) noexcept {
        flashscan_plan* plan = nullptr;
        const flashscan_status status = create(&plan, &what, how);
        plan_.reset(plan);
        return status;
    }
    struct Destroy {
        void operator()(flashscan_plan* plan) const noexcept { flashscan_plan_destroy(plan); }
    };
    std::unique_ptr<flashscan_plan, Destroy> plan_;
};

}  // namespace flashscan

#endif
