/* SPDX-License-Identifier: Apache-2.0
   A libcuda.so.1 in front of the machine's own, by LD_LIBRARY_PATH: every function that is looked up in it is the real
   one behind a stub that counts the call and can make it fail (support/failing_calls.h). The CUDA runtime finds all of
   its driver here, linked statically as it may be. FLASHSCAN_TEST_DRIVER names the real library where it is not in one
   of the usual places. x86-64 alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    most_functions = 4096,
    stub_bytes = 32
};

#define EXPORTED __attribute__((visibility("default")))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char* stubs;
static int64_t functions;
static char* names[most_functions];
__attribute__((visibility("hidden"))) void* interposed_real[most_functions];

static struct {
    int64_t call, calls;
    int error, all_after;
    const char* failed;
} failure;

/* 0, or what the function is to return instead of being called. */
__attribute__((visibility("hidden"), used)) int interposed_enter(int64_t function) {
    int error = 0;
    pthread_mutex_lock(&mutex);
    if (failure.call > 0) {
        ++failure.calls;
        if (failure.calls == failure.call || (failure.all_after && failure.calls > failure.call)) {
            error = failure.error;
            if (failure.failed == NULL) failure.failed = names[function];
        }
    }
    pthread_mutex_unlock(&mutex);
    return error;
}

/* Stubs come here with the function's number in r11 and its arguments where the caller put them. */
void interposed_common(void);
__asm__(
    ".hidden interposed_common\n"
    ".globl interposed_common\n"
    "interposed_common:\n"
    "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %r11\n"
    "  mov %r11, %rdi\n"
    "  call interposed_enter\n"
    "  pop %r11\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
    "  test %eax, %eax\n"
    "  jne 1f\n"
    "  lea interposed_real(%rip), %rax\n"
    "  jmp *(%rax,%r11,8)\n"
    "1:\n"
    "  ret\n");

static void* driver(void) {
    static void* library;
    if (library != NULL) return library;
    const char* const files[] = {getenv("FLASHSCAN_TEST_DRIVER"), "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                                 "/usr/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"};
    for (size_t i = 0; library == NULL && i < sizeof files / sizeof *files; ++i)
        if (files[i] != NULL) library = dlopen(files[i], RTLD_NOW | RTLD_GLOBAL);
    return library;
}

static void* find(const char* name) {
    void* const library = driver();
    return library != NULL ? dlsym(library, name) : NULL;
}

/* A stub of `real`; the same one each time. Functions that say what an error was do not fail. */
static void* stub_of(const char* name, void* real) {
    void* stub = real;
    if (real == NULL || strncmp(name, "cuGetError", 10) == 0 || strncmp(name, "cuGetProcAddress", 16) == 0) return real;
    pthread_mutex_lock(&mutex);
    if (stubs == NULL) {
        stubs = mmap(NULL, (size_t)most_functions * stub_bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stubs == MAP_FAILED) abort();
    }
    int64_t i = 0;
    while (i < functions && interposed_real[i] != real) ++i;
    if (i < most_functions) {
        unsigned char* const at = stubs + i * stub_bytes;
        if (i == functions) {
            void (*const common)(void) = interposed_common;
            memcpy(at, "\x49\xbb", 2); /* mov r11, i */
            memcpy(at + 2, &i, 8);
            memcpy(at + 10, "\x48\xb8", 2); /* mov rax, common */
            memcpy(at + 12, &common, 8);
            memcpy(at + 20, "\xff\xe0", 2); /* jmp rax */
            names[i] = strdup(name);
            interposed_real[i] = real;
            ++functions;
        }
        stub = at;
    }
    pthread_mutex_unlock(&mutex);
    return stub;
}

EXPORTED int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* found);
EXPORTED int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
EXPORTED int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* found) {
    int (*const real)(const char*, void**, int, uint64_t, int*) = find("cuGetProcAddress_v2");
    if (real == NULL) return 3; /* not initialised */
    const int result = real(name, function, version, flags, found);
    if (result != 0 || function == NULL || *function == NULL) return result;
    if (strcmp(name, "cuGetProcAddress") != 0)
        *function = stub_of(name, *function);
    else
        *function = version >= 12000 ? (void*)cuGetProcAddress_v2 : (void*)cuGetProcAddress;
    return 0;
}
EXPORTED int cuInit(unsigned flags) {
    int (*const real)(unsigned) = find("cuInit");
    return real != NULL ? real(flags) : 100; /* no device */
}
EXPORTED int cuDriverGetVersion(int* version) {
    int (*const real)(int*) = find("cuDriverGetVersion");
    return real != NULL ? real(version) : 100;
}
EXPORTED int cuGetExportTable(const void** table, const void* id) {
    int (*const real)(const void**, const void*) = find("cuGetExportTable");
    return real != NULL ? real(table, id) : 100;
}

/* All others that a driver exports, by their names: cuBLAS finds its own with dlsym and makes no handle without them. The
   file has a line NAME(function) for each. */
enum {
#define NAME(function) place_of_##function,
#include "interposed_names.h"
#undef NAME
    exported_functions
};
static const char* const exported_names[] = {
#define NAME(function) #function,
#include "interposed_names.h"
#undef NAME
};
__attribute__((visibility("hidden"))) void* interposed_exports[exported_functions];
#define NAME(function)                                                                       \
    EXPORTED __attribute__((naked)) void function(void) {                                    \
        __asm__("jmp *interposed_exports+%c0(%%rip)" : : "i"(8 * (int)place_of_##function)); \
    }
#include "interposed_names.h"
#undef NAME

static int is_missing(void) { return 500; /* not found */ }
__attribute__((constructor)) static void fill_exports(void) {
    for (int i = 0; i < exported_functions; ++i) {
        void* const real = find(exported_names[i]);
        interposed_exports[i] = real != NULL ? stub_of(exported_names[i], real) : (void*)is_missing;
    }
}

EXPORTED void failing_calls_begin(int64_t call, int error, int all_after) {
    pthread_mutex_lock(&mutex);
    failure.call = call;
    failure.calls = 0;
    failure.error = error;
    failure.all_after = all_after;
    failure.failed = NULL;
    pthread_mutex_unlock(&mutex);
}
EXPORTED const char* failing_calls_end(void) {
    pthread_mutex_lock(&mutex);
    failure.call = 0;
    const char* const failed = failure.failed != NULL ? failure.failed : "";
    pthread_mutex_unlock(&mutex);
    return failed;
}
EXPORTED const char* failing_calls_launches(void) { return ""; }
EXPORTED const char* failing_calls_living(void) { return ""; }
