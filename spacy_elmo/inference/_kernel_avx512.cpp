/* The kernel for AVX-512: 12 sums and their totals in 32 registers. */

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,fma")
#pragma GCC optimize("ira-region=one") /* otherwise GCC spills the weights */
#endif
#define KERNEL avx512_kernel
#define NAME "avx512"
#define W 16
#define MAX_ROWS 6
#include "_kernel.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
