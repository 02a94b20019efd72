/* The kernel for AVX2 and FMA: 12 sums in 16 registers. */

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#pragma GCC optimize("ira-region=one") /* otherwise GCC spills sums with bfloat16 weights */
#endif
#define KERNEL avx2_kernel
#define NAME "avx2"
#define W 8
#define MAX_ROWS 6
#include "_kernel.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
