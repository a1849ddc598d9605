/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps the library from needing a glibc newer than 2.28 where it is linked with that of Debian 11, 2.31.
 */

/* GCC's C++ runtime reads it to leave atomic operations out; glibc has it from 2.32. Zero: there may be threads. */
__attribute__((visibility("hidden"))) char __libc_single_threaded;

/* exp of glibc 2.29 leaves error handlers of System V out; the one before computes the same. The linker sends calls of
 * exp to __wrap_exp. */
#if defined(__x86_64__)
__asm__(".symver exp_of_any_glibc, exp@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver exp_of_any_glibc, exp@GLIBC_2.17");
#else
#error "the oldest symbol version of this architecture is not known"
#endif
double exp_of_any_glibc(double x);
__attribute__((visibility("hidden"))) double __wrap_exp(double x);

double __wrap_exp(double x) { return exp_of_any_glibc(x); }
