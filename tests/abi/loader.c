/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the library by path, as bindings do, and asks it a few things. usage: loader LIBRARY */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <flashscan/flashscan.h>
#include <stdio.h>
#include <string.h>

static void* library;

/* POSIX gives functions as object pointers; ISO C has no cast for it. */
static void find(const char* name, void* pointer, size_t size) {
    void* symbol = dlsym(library, name);
    memcpy(pointer, &symbol, size);
}

int main(int argc, char** argv) {
    int32_t (*version)(void) = NULL;
    flashscan_status (*device_count)(int32_t, int32_t*) = NULL;
    int32_t cpus = -1, gpus = -1;
    library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) {
        printf("FAILED: %s\n", argc == 2 ? dlerror() : "usage: loader LIBRARY");
        return 1;
    }
    find("flashscan_version", &version, sizeof version);
    find("flashscan_device_count", &device_count, sizeof device_count);
    if (version == NULL || device_count == NULL || version() != FLASHSCAN_VERSION ||
        device_count(FLASHSCAN_BACKEND_CPU, &cpus) != FLASHSCAN_STATUS_OK || cpus != 1 ||
        device_count(FLASHSCAN_BACKEND_CUDA, &gpus) != FLASHSCAN_STATUS_OK || gpus < 0) {
        printf("FAILED: version or devices\n");
        return 1;
    }
    printf("version %d, %d cpu, %d gpu\n", version(), cpus, gpus);
    return dlclose(library);
}
