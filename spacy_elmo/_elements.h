/* What the loops over elements of an LSTM have in common: how they are compiled, and the exponential.

Compiled with -ffinite-math-only, so that a clip takes one instruction; values that are not finite are detected by their
bits. */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* The loops are compiled for several instruction sets; the C library selects one when the module is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* Arrays do not overlap. Declared for each loop, since GCC loses `restrict` when it inlines a function. */
#if defined(__GNUC__) && !defined(__clang__)
#define ARRAYS_DIFFER _Pragma("GCC ivdep")
#elif defined(__clang__)
#define ARRAYS_DIFFER _Pragma("clang loop vectorize(assume_safety)")
#elif defined(_MSC_VER)
#define ARRAYS_DIFFER __pragma(loop(ivdep))
#else
#define ARRAYS_DIFFER
#endif

/* Inlined in any case: a function of its own would be compiled for one instruction set only. */
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

typedef union {
    float value;
    int32_t bits;
} Float;

/* exp(-x) = 2^n 2^r with integer n and |r| <= 1/2, with relative error 1e-7 for |x| <= 39. Larger |x| are clipped to 39:
a sigmoid is then 0 or 1 within 1e-17. The polynomial is the best approximation of degree 6 to 2^r. */
INLINE float exp_minus(float x) {
    float z = x * -1.44269504f;
    z = z < -57.0f ? -57.0f : z;
    z = z > 57.0f ? 57.0f : z;
    float n = rintf(z), r = z - n;
    Float power = {1.535336196e-4f};
    power.value = power.value * r + 1.339887472e-3f;
    power.value = power.value * r + 9.618437360e-3f;
    power.value = power.value * r + 5.550332470e-2f;
    power.value = power.value * r + 2.402264791e-1f;
    power.value = power.value * r + 6.931472029e-1f;
    power.value = power.value * r + 1.0f;
    power.bits += (int32_t)n << 23;
    return power.value;
}
