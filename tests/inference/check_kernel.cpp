/* Checks the kernel without Python: numbers against double precision, whether a lane is bit-identical whatever the number
of lanes, and with sanitizers that no read or write leaves its array. `test_kernel.py` compiles it for several instruction
sets: c++ -std=c++17 -DKERNEL=checked -DNAME=\"x\" -DW=8 -DMAX_ROWS=6 -march=native check_kernel.cpp; -DPAIR_ROWS=12 (and W=16)
is for AVX512-BF16, whose instructions are emulated on other processors. */

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(PAIR_ROWS)
#include <math.h>
#include <stdint.h>
#include <string.h>
typedef float __m512 __attribute__((vector_size(64)));
typedef uint32_t __m512bh __attribute__((vector_size(64)));

static float to_float(uint32_t bits) {
    float number;
    memcpy(&number, &bits, 4);
    return number;
}

static __m512 _mm512_set1_ps(float x) {
    __m512 all;
    for (int k = 0; k < 16; k++)
        memcpy((float *)&all + k, &x, 4);
    return all;
}

static __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
    for (int k = 0; k < 16; k++)
        c[k] = fmaf(a[k], b[k], c[k]);
    return c;
}

/* The second operand, if one is NaN. */
static __m512 _mm512_min_ps(__m512 a, __m512 b) {
    for (int k = 0; k < 16; k++)
        b[k] = a[k] < b[k] ? a[k] : b[k];
    return b;
}

static __m512 _mm512_max_ps(__m512 a, __m512 b) {
    for (int k = 0; k < 16; k++)
        b[k] = a[k] > b[k] ? a[k] : b[k];
    return b;
}

static __m512 _mm512_scalef_ps(__m512 a, __m512 exponent) {
    for (int k = 0; k < 16; k++)
        a[k] = exponent[k] == exponent[k] ? ldexpf(a[k], (int)exponent[k]) : exponent[k];
    return a;
}

static __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh a, __m512bh b) {
    for (int k = 0; k < 16; k++)
        sums[k] += to_float(a[k] << 16) * to_float(b[k] << 16) + to_float(a[k] & 0xffff0000) * to_float(b[k] & 0xffff0000);
    return sums;
}

static __m512bh _mm512_cvtne2ps_pbh(__m512 high, __m512 low) {
    __m512bh pairs = {};
    for (int k = 0; k < 32; k++) {
        const float number = k < 16 ? low[k] : high[k - 16];
        uint32_t bits;
        memcpy(&bits, &number, 4);
        bits = number != number ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to the nearest, ties to even */
        pairs[k / 2] |= bits << 16 * (k % 2);
    }
    return pairs;
}
#endif
#include "../../spacy_elmo/inference/_kernel.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

typedef std::vector<float> Floats;
static std::mt19937 generator(1);

static Floats random_numbers(size_t n, float scale) {
    std::normal_distribution<float> normal;
    Floats numbers(n);
    for (float &number : numbers)
        number = scale * normal(generator);
    return numbers;
}

/* The scale of the levels of a column in int8, a power of two. */
static float scale_of(Size column) { return 1.0f / (256 << column % 3); }

/* Numbers that all types represent exactly: whole levels up to 127. */
static Floats random_weights(Size n_in, Size n_out, float scale) {
    Floats numbers = random_numbers(n_in * n_out, scale);
    for (size_t k = 0; k < numbers.size(); k++) {
        const float level = std::round(numbers[k] / scale_of(k % n_out));
        numbers[k] = scale_of(k % n_out) * std::fmax(-127.0f, std::fmin(127.0f, level));
    }
    return numbers;
}

static Size count_packed(int type) { return type == FLOAT32 ? 1 : type == BFLOAT16 ? 2 : 4; }
static Size count_rows(int type, Size n_in) { return (n_in + count_packed(type) - 1) / count_packed(type) + (type == INT8); }

/* Panels of weights (n_in, n_out), whose columns are in the order of `source`; -1 is a column of zeros. */
static Floats pack(const Floats &weights, Size n_in, Size n_out, const std::vector<Size> &source, int type) {
    const Size n_rows = count_rows(type, n_in), n_packed = count_packed(type);
    Floats packed(n_rows * source.size());
    for (Size column = 0; column < (Size)source.size(); column++) {
        float *panel = &packed[column / PANEL * n_rows * PANEL + column % PANEL];
        if (type == INT8)
            *panel = source[column] < 0 ? 0 : scale_of(source[column]), panel += PANEL;
        for (Size row = 0; row < n_in && source[column] >= 0; row++) {
            const float weight = weights[row * n_out + source[column]];
            char *place = (char *)(panel + row / n_packed * PANEL) + row % n_packed * (4 / n_packed);
            if (type == INT8)
                *(int8_t *)place = (int8_t)(weight / scale_of(source[column]));
            else
                memcpy(place, (const char *)&weight + 4 - 4 / n_packed, 4 / n_packed);
        }
    }
    return packed;
}

/* A product of rows, with rows of other numbers above and below the outputs. */
static bool check_product(Size n_rows, Size n_in, Size n_out, int type, double tolerance) {
    const Size padded = round_up(n_out, PANEL);
    std::vector<Size> columns(padded);
    for (Size column = 0; column < padded; column++)
        columns[column] = column < n_out ? column : -1;
    const Floats weights = random_weights(n_in, n_out, 1 / std::sqrt((float)n_in)), rows = random_numbers(n_rows * n_in, 1);
    const Floats bias = random_numbers(padded, 1), packed = pack(weights, n_in, n_out, columns, type);
    Floats out((n_rows + 2) * padded, 7);
    Product product = {{rows.data(), n_in, n_in}, packed.data(), bias.data(), out.data() + padded, n_rows, padded / PANEL,
                       count_rows(type, n_in) * PANEL, padded, type};
    bool is_right = KERNEL.functions[type].multiply(product);
    double largest = 0;
    for (Size m = 0; m < n_rows; m++)
        for (Size k = 0; k < n_out; k++) {
            double sum = bias[k];
            for (Size row = 0; row < n_in; row++)
                sum += (double)rows[m * n_in + row] * weights[row * n_out + k];
            largest = std::fmax(largest, std::fabs(sum - out[(m + 1) * padded + k]));
        }
    for (Size k = 0; k < padded; k++)
        is_right = is_right && out[k] == 7 && out[(n_rows + 1) * padded + k] == 7;
    std::printf("%d rows of %d to %d: largest error %.1e, %s\n", (int)n_rows, (int)n_in, (int)n_out, largest, is_right ? "inside" : "WRONG");
    return is_right && largest < tolerance;
}

/* L layers of widths H and P over n lanes: the lengths differ, and a second sequence begins in the middle of each. The first
of lane 1 is not finite from its third word on, the second is. */
static bool check(Size L, Size H, Size P, bool has_projection, bool has_highway, Size few_lanes, int type, double tolerance) {
    const Size S = 9, N = 2 * MAX_ROWS + 14, D = P + 3, padded_H = round_up(H, PANEL), padded_P = round_up(P, PANEL), U = 5;
    std::vector<Size> gates(4 * padded_H), outputs(padded_P);
    for (Size column = 0; column < 4 * padded_H; column++) {
        Size cell = column / (4 * W) * W + column % W;
        gates[column] = cell < H ? column % (4 * W) / W * H + cell : -1;
    }
    for (Size column = 0; column < padded_P; column++)
        outputs[column] = column < P ? column : -1;
    std::vector<Floats> weights, biases, projections, highways, start_h, start_c, packed;
    for (Size l = 0; l < L; l++) {
        weights.push_back(random_weights(2 * P, 4 * H, 1 / std::sqrt(2.0f * P))), biases.push_back(random_numbers(4 * H, 0.1f));
        projections.push_back(random_weights(H, P, 1 / std::sqrt((float)H))), highways.push_back(random_weights(P, P, 0.3f));
        start_h.push_back(random_numbers(2 * N * P, 0.1f)), start_c.push_back(random_numbers(2 * N * H, 1));
        const Floats inputs(weights[l].begin(), weights[l].begin() + P * 4 * H), previous(weights[l].begin() + P * 4 * H, weights[l].end());
        packed.push_back(pack(inputs, P, 4 * H, gates, type)), packed.push_back(pack(previous, P, 4 * H, gates, type));
        packed.push_back(pack(biases[l], 1, 4 * H, gates, FLOAT32));
        packed.push_back(pack(projections[l], H, P, outputs, type)), packed.push_back(pack(highways[l], P, P, outputs, type));
    }
    const Floats no_bias(padded_P);
    Floats vectors = random_numbers(U * P, 1);
    vectors.resize((U + 1) * P, NAN);
    bool is_right = true;
    double largest = 0;
    Floats first_lane;
    for (Size n : {(Size)1, (Size)MAX_ROWS - 1, (Size)MAX_ROWS, (Size)MAX_ROWS + 1, (Size)13, N}) {
        std::vector<int32_t> tokens(S * n), words(S * n), n_active(S), begins(S * n, -1), ends(S * n, -1);
        for (Size step = 0; step < S; step++) {
            n_active[step] = (int32_t)(step < S - 2 ? n : (n + 1) / 2);
            for (Size m = 0; m < n; m++) {
                tokens[step * n + m] = (int32_t)(step * n + m), words[step * n + m] = (int32_t)((3 * step + m) % U);
                begins[step * n + m] = step == 0 ? (int32_t)m : step == 4 ? (int32_t)(N + m) : -1;
            }
        }
        for (Size m = 0; m < n; m++)
            ends[4 * n - n + m] = (int32_t)m;
        if (n > 1)
            words[2 * n + 1] = U;
        Floats rows((L + 1) * S * n * D, 7), table((Size)4 * padded_H * n);
        std::vector<Floats> end_h(L, Floats(N * P)), end_c(L, Floats(N * H));
        std::vector<Layer> layers;
        for (Size l = 0; l < L; l++)
            layers.push_back({packed[5 * l].data(), packed[5 * l + 1].data(), packed[5 * l + 2].data(),
                              has_projection ? packed[5 * l + 3].data() : nullptr, has_highway && l ? packed[5 * l + 4].data() : nullptr, no_bias.data(), start_h[l].data(),
                              start_c[l].data(), end_h[l].data(), end_c[l].data()});
        Task task = {layers.data(), vectors.data(), words.data(), tokens.data(), n_active.data(), begins.data(), ends.data(),
                     rows.data(), rows.data() + S * n * D, table.data(), L, P, P, H, !has_highway, U + 1, D, S * n * D, S, n, 0, n, (Size)table.size(), 4 * n,
                     few_lanes, type, 3, 2};
        Work work = {};
        const Functions &functions = KERNEL.functions[type];
        if (!functions.allocate_work(task, work))
            return false;
        for (Size step = 0; step < S;)
            step = functions.run(task, work, step);
        functions.free_work(work);
        for (Size m = 0; m < n; m++) {
            std::vector<std::vector<double>> h(L, std::vector<double>(P)), c(L, std::vector<double>(H));
            for (Size step = 0; step < S && m < n_active[step]; step++) {
                const Size at = step * n + m;
                std::vector<double> x(P);
                for (Size k = 0; k < P; k++)
                    x[k] = vectors[words[at] * P + k];
                for (Size l = 0; l < L; l++) {
                    if (begins[at] >= 0) {
                        for (Size k = 0; k < P; k++)
                            h[l][k] = start_h[l][begins[at] * P + k];
                        for (Size k = 0; k < H; k++)
                            c[l][k] = start_c[l][begins[at] * H + k];
                    }
                    std::vector<double> pre(4 * H), cell(H);
                    for (Size k = 0; k < 4 * H; k++) {
                        pre[k] = biases[l][k];
                        for (Size row = 0; row < P; row++)
                            pre[k] += x[row] * weights[l][row * 4 * H + k] + h[l][row] * weights[l][(P + row) * 4 * H + k];
                    }
                    auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
                    auto clipped = [](double v, double bound) { return v < -bound ? -bound : v > bound ? bound : v; };
                    for (Size k = 0; k < H; k++) {
                        c[l][k] = clipped(sigmoid(pre[2 * H + k]) * c[l][k] + sigmoid(pre[k]) * std::tanh(pre[H + k]), 3);
                        cell[k] = sigmoid(pre[3 * H + k]) * std::tanh(c[l][k]);
                    }
                    for (Size k = 0; k < P; k++) {
                        double sum = 0;
                        for (Size row = 0; has_projection && row < H; row++)
                            sum += cell[row] * projections[l][row * P + k];
                        h[l][k] = has_projection ? clipped(sum, 2) : cell[k];
                    }
                    std::vector<double> y(P);
                    for (Size k = 0; k < P; k++) {
                        double score = 0;
                        for (Size row = 0; row < P; row++)
                            score += x[row] * highways[l][row * P + k];
                        y[k] = !l ? h[l][k] : has_highway ? x[k] + (h[l][k] - x[k]) * sigmoid(score) : h[l][k] + x[k];
                    }
                    x = y;
                    for (Size k = 0; k < D; k++) {
                        const float value = rows[((l + 1) * S * n + at) * D + k];
                        if (k >= P)
                            is_right = is_right && value == 7; /* columns of the other direction */
                        else if (std::isnan(value) != std::isnan(x[k]))
                            is_right = false;
                        else
                            largest = std::fmax(largest, std::fabs(value - x[k])); /* which ignores NaN */
                        if (m == 0)
                            first_lane.push_back(value);
                    }
                    if (ends[at] >= 0)
                        for (Size k = 0; k < H; k++)
                            largest = std::fmax(largest, std::fabs(end_c[l][m * H + k] - c[l][k]));
                }
            }
        }
        const Size size = first_lane.size() / (n == 1 ? 1 : 2);
        if (n > 1) {
            is_right = is_right && memcmp(first_lane.data(), first_lane.data() + size, 4 * size) == 0;
            first_lane.resize(size);
        }
    }
    std::printf("%d layers of %d/%d: largest error %.1e, %s\n", (int)L, (int)H, (int)P, largest, is_right ? "identical" : "WRONG");
    return is_right && largest < tolerance;
}

int main() {
    bool is_right = true;
    for (int type = 0; type < N_TYPES; type++) {
        const double tolerance = type != FLOAT32 && PAIR_ROWS ? 0.03 : 5e-6; /* inputs are rounded, too */
        for (Size few_lanes : {0, 3}) {
            is_right &= check(1, 40, 8, true, false, few_lanes, type, tolerance) &&
                        check(2, 33, 7, true, false, few_lanes, type, tolerance);
            is_right &= check(2, 70, 70, false, true, few_lanes, type, tolerance) &&
                        check(3, 300, 17, true, true, few_lanes, type, tolerance);
        }
        for (Size n_rows : {1, 2, 3, 12, 13, 250})
            is_right &= check_product(n_rows, 37, 51, type, tolerance) && check_product(n_rows, 1, 1, type, tolerance);
    }
    return is_right ? 0 : 1;
}
