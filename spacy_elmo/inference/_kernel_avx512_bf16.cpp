/* The kernel for AVX-512 with bfloat16: 24 sums of products of pairs in 32 registers. Not for GCC before 10. */

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bf16,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bf16,fma")
#pragma GCC optimize("ira-region=one") /* otherwise GCC spills the weights */
#endif
#define KERNEL avx512_bf16_kernel
#define NAME "avx512_bf16"
#define W 16
#define MAX_ROWS 6
#define PAIR_ROWS 12
#include "_kernel.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
