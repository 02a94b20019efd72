/* The recurrence of an LSTM with projection (Sak et al. 2014) over many steps, and products with prepacked weights.

Letters: W floats are in a vector register; P columns of outputs and H cells, padded to whole panels; t is a task, w its
memory, m a row and n a number of rows. In the words of BLIS, MAX_ROWS is MR, PANEL is NR, and CHUNK is kc.

This file is compiled once per instruction set: `_kernel.cpp` (generic: SSE2, NEON, ...), `_kernel_avx2.cpp`,
`_kernel_avx512.cpp` and `_kernel_avx512_bf16.cpp` define KERNEL, W (floats of a vector register) and MAX_ROWS, and
include it.

Weights are packed into panels of PANEL = 2 W columns, (n_in, PANEL) each, which stay in the caches while all rows are
multiplied. The columns of the gates are ordered by groups of W cells, with the W columns of i, j, f and o in turn: two
panels hold the gates of W cells, which are updated while these gates are in the L1 cache, or above about 100 lanes in the L2
cache. Columns are padded with zeros to whole panels, cells to multiples of PANEL.

Weights have 32, 16 or 8 bits (`Type`): one, two or four inputs that follow one another are in 32 bits, and everything else
is the same, with fewer inputs. They are expanded to float32 in registers, or to pairs of bfloat16, which AVX512-BF16
multiplies with pairs of inputs. In a panel of int8 the first PANEL numbers are scales, float32, one for each column.

The sum of each row and column runs over the inputs in one order, whatever the number of rows: a result is bit-identical
in every batch. AVX2, AVX-512 and NEON round alike. */

#ifndef KERNEL_TYPES
#define KERNEL_TYPES

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first of a pair is in the lower bits");

typedef int64_t Size;

/* Types of weights: float32, bfloat16, and int8 with a scale for each column. */
enum Type { FLOAT32, BFLOAT16, INT8, N_TYPES };

/* Rows of floats: the first of them, floats from row to row, columns. */
struct Rows {
    const float *first;
    Size stride, width;
};

/* A product with bias: out (n_rows, PANEL * n_panels) = bias + rows * weights. */
struct Product {
    Rows rows;
    const float *weights, *bias;
    float *out;
    Size n_rows, n_panels, panel_size, out_stride, type;
};

/* A layer of one direction. */
struct Layer {
    const float *input_weights, *recurrent_weights, *bias, *projection, *highway, *highway_bias, *start_h, *start_c;
    float *end_h, *end_c;
};

/* One direction of a stack for some lanes of a plan. `kernel_records.py` describes the fields of this and the records above,
and compares their layout at import: _kernel.cpp lists them. */
struct Task {
    const Layer *layers;
    const float *vectors;
    const int32_t *words, *tokens, *n_active, *starting, *ending;
    float *token_rows, *outputs, *gates;
    Size n_layers, input_width, width, cell_width, has_skip, n_words, rows_stride, layer_stride, n_steps, n_plan_lanes,
        first_lane, n_lanes, max_gates, max_slots, few_lanes, type;
    float cell_clip, projection_clip;
};

/* Memory of a task, and the sizes of its rows. */
struct Work {
    Size H, P, h_stride, c_stride, input_stride, n_gates;
    bool has_few_lanes;
    float *memory, *h, *c, *inputs, *cell_outputs, *cell_gates, *zeros, *gate_inputs, *pairs;
    int32_t *gate_of_word, *gate_of_slot;
    const float **starts, **zero_starts, **highway_starts;
};

/* What is computed with weights of one type. */
struct Functions {
    bool (*multiply)(const Product &); /* false without memory */
    bool (*allocate_work)(const Task &, Work &); /* false without memory */
    Size (*run)(const Task &, Work &, Size); /* some steps from this one on; returns the next one */
    void (*free_work)(Work &);
};

struct Kernel {
    const char *name;
    int panel_width;
    Functions functions[N_TYPES];
};

#endif

#ifdef KERNEL

namespace {

/* LINE: floats of a line of the cache. ROW_PADDING: rows whose distance is a power of two would share few sets of the L1
cache. */
enum { PANEL = 2 * W, CHUNK = 16, LINE = 16, ROW_PADDING = LINE };

#define INLINE static inline __attribute__((always_inline))

typedef float Vec __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(4 * W), aligned(4), may_alias));

INLINE Vec load(const float *p) { return *(const Vec *)p; }
INLINE void store(float *p, Vec v) { *(Vec *)p = v; }
INLINE Vec broadcast(float x) { return x - Vec{}; }
INLINE Size round_up(Size n, Size step) { return (n + step - 1) / step * step; }

/* a * b + c, rounded once with AVX2, AVX-512 and NEON, for a c that is a product, too: a compiler would choose one of the two.
All other products are fused with the sum they are added to (`-ffp-contract=fast` in setup.py). */
INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if W == 16
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif W == 8
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

INLINE Vec clip(Vec x, float bound) { /* NaN stays: it is the second operand, which the instructions return */
#if W == 16 /* whose comparisons write masks, which take longer */
    return (Vec)_mm512_min_ps(_mm512_set1_ps(bound), _mm512_max_ps(_mm512_set1_ps(-bound), (__m512)x));
#else
    x = x < -bound ? broadcast(-bound) : x;
    return x > bound ? broadcast(bound) : x;
#endif
}

/* exp(-x) = 2^n 2^r with integer n and |r| <= 1/2, with relative error 1e-7. It is clipped to 2^-42 and 2^42, so that a
product of three is finite: a sigmoid is then 0 or 1 within 1e-12. The polynomial is the best approximation of degree 6 to
2^r. Adding a large number rounds. */
INLINE Vec exp_minus(Vec x) {
    const Vec magic = broadcast(12582912.0f);
    Vec z = clip(x * -1.44269504f, 42.0f), shifted = z + magic, r = z - (shifted - magic);
    Vec power = r * 1.535336196e-4f + 1.339887472e-3f;
    power = power * r + 9.618437360e-3f;
    power = power * r + 5.550332470e-2f;
    power = power * r + 2.402264791e-1f;
    power = power * r + 6.931472029e-1f;
    power = power * r + 1.0f;
#if W == 16 /* one instruction; NaN stays */
    return (Vec)_mm512_scalef_ps((__m512)power, (__m512)(shifted - magic));
#endif
    return x == x ? (Vec)((Ints)power + (((Ints)shifted - (Ints)magic) << 23)) : x; /* NaN stays */
}

/* W cells of a lane: c = clip(i j + f c), and o tanh(c), with one division for both quotients of c.
tanh(x) = (1 - exp(-2x)) / (1 + exp(-2x)). */
INLINE void update_cells(const float *gates, float *c, float *out, float cell_clip) {
    Vec i = exp_minus(load(gates)), j = exp_minus(2.0f * load(gates + W));
    Vec f = exp_minus(load(gates + 2 * W)), o = exp_minus(load(gates + 3 * W));
    Vec by_f = 1.0f + f, by_ij = (1.0f + i) * (1.0f + j);
    Vec cells = clip(multiply_add(load(c), by_ij, (1.0f - j) * by_f) / (by_f * by_ij), cell_clip);
    store(c, cells);
    Vec e = exp_minus(2.0f * cells);
    store(out, (1.0f - e) / ((1.0f + e) * (1.0f + o)));
}

/* Outputs of a lane: h, added to the inputs, or mixed with them by a highway with these scores. */
INLINE void write_outputs(const float *h, const float *x, const float *scores, bool has_skip, Size width, float *out) {
    for (Size k = 0; k < width; k += W) {
        Vec y = load(h + k);
        if (scores)
            y = load(x + k) + (y - load(x + k)) / (1.0f + exp_minus(load(scores + k)));
        else if (has_skip)
            y += load(x + k);
        if (k + W <= width)
            store(out + k, y);
        else
            memcpy(out + k, &y, 4 * (width - k));
    }
}

/* Rows and the panels they are multiplied with. */
struct Operand {
    Rows rows;
    const float *panels;
    Size panel_size;
};

/* The products of inputs and of previous outputs, added to the starts. One of them may be empty. */
struct ProductSum {
    Operand input, recurrent;
    const float *const *starts; /* a pointer for each row */
    float *out;
    Size start_column, out_stride;
};

/* A number of a pair of bfloat16, or of four int8, for each column. */
INLINE Vec expand_pair(Ints pairs, int part) { return (Vec)(part ? pairs & -65536 : pairs << 16); }
INLINE Vec expand_four(Ints fours, int part) {
    const Ints numbers = fours << (24 - 8 * part) >> 24;
#if defined(__clang__) || __GNUC__ >= 9
    return __builtin_convertvector(numbers, Vec);
#else
    Vec converted;
    for (int k = 0; k < W; k++)
        converted[k] = (float)numbers[k];
    return converted;
#endif
}

/* AVX512-BF16: sums + products of two numbers of each pair, and pairs of bfloat16, rounded from 2 W numbers in order. */
#ifdef PAIR_ROWS
INLINE Vec add_pairs(Vec sums, float pair, Vec weights) {
    return (Vec)_mm512_dpbf16_ps((__m512)sums, (__m512bh)_mm512_set1_ps(pair), (__m512bh)weights);
}
INLINE Vec round_to_pairs(Vec low, Vec high) { return (Vec)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }
#else
enum { PAIR_ROWS = 0 };
INLINE Vec add_pairs(Vec sums, float, Vec) { return sums; }
INLINE Vec round_to_pairs(Vec low, Vec) { return low; }
#endif

/* The recurrence with weights of one type. */
template <Type TYPE>
struct Recurrence {

/* Inputs in 32 bits, and the parts that are multiplied one after the other: numbers, or pairs of bfloat16. */
enum { N_PACKED = TYPE == FLOAT32 ? 1 : TYPE == BFLOAT16 ? 2 : 4, IS_PAIRED = TYPE != FLOAT32 && PAIR_ROWS };
enum { N_PARTS = IS_PAIRED ? N_PACKED / 2 : N_PACKED, N_SCALES = TYPE == INT8 };

/* ROWS: rows of a tile, whose sums are in registers. BLOCK: rows that stay in the L2 cache. */
enum { ROWS = IS_PAIRED ? PAIR_ROWS : MAX_ROWS, HOLDS_TOTALS = W == 16 || IS_PAIRED, BLOCK = 20 * ROWS };

/* A part of the weights of some columns. Numbers up to 127 are exact in bfloat16. */
INLINE Vec expand(const float *weights, int part) {
    const Ints packed = *(const Ints *)weights;
    if (N_PARTS == 1)
        return load(weights);
    if (TYPE == BFLOAT16)
        return expand_pair(packed, part);
    if (!IS_PAIRED)
        return expand_four(packed, part);
    return (Vec)((Bits)expand_four(packed, 2 * part) >> 16 | (Bits)expand_four(packed, 2 * part + 1));
}

/* Add products to the totals of M rows, for Q panels. Inputs in float32 are divided into chunks with a sum each, which
rounds less than one long sum; rounded weights are further from exact than that. */
template <int M, int Q>
INLINE void add_products(const Operand &operand, Size row, Vec *totals, Size totals_stride) {
    const Size stride = operand.rows.stride, n_in = (operand.rows.width + N_PACKED - 1) / N_PACKED;
    const Size chunk = TYPE == FLOAT32 ? (Size)CHUNK : n_in + 1;
    const float *rows = operand.rows.first + row * stride;
    for (Size first = 0; first < n_in; first += chunk) {
        Vec sums[M][2 * Q] = {};
        const Size end = first + chunk < n_in ? first + chunk : n_in;
        const float *panel = operand.panels + (N_SCALES + first) * PANEL;
        for (Size k = first; k < end; k++, panel += PANEL) {
            for (int part = 0; part < N_PARTS; part++) {
                Vec weights[2 * Q];
                for (int q = 0; q < 2 * Q; q++)
                    weights[q] = expand(panel + q / 2 * operand.panel_size + q % 2 * W, part);
                for (int m = 0; m < M; m++) {
                    const float x = rows[m * stride + N_PARTS * k + part];
                    for (int q = 0; q < 2 * Q; q++)
                        sums[m][q] = IS_PAIRED ? add_pairs(sums[m][q], x, weights[q]) : sums[m][q] + x * weights[q];
                }
            }
        }
        for (int q = 0; q < 2 * Q; q++) {
            const Vec scale = N_SCALES ? load(operand.panels + q / 2 * operand.panel_size + q % 2 * W) : Vec{};
            for (int m = 0; m < M; m++)
                totals[m * totals_stride + q] += N_SCALES ? sums[m][q] * scale : sums[m][q];
        }
    }
}

/* M rows from `row` on times Q panels. Totals are in registers where there are enough of them, otherwise in `out`. Not inlined:
beside other tiles, GCC spills sums. */
template <int M, int Q>
static __attribute__((noinline)) void multiply_tile(const ProductSum &product, Size row) {
    Vec registers[M * 2 * Q], *out = (Vec *)(product.out + row * product.out_stride), *totals = HOLDS_TOTALS ? registers : out;
    const Size out_stride = product.out_stride / W, stride = HOLDS_TOTALS ? 2 * Q : out_stride;
    for (int m = 0; m < M; m++) {
        const float *start = product.starts[row + m] + product.start_column;
        for (int q = 0; q < 2 * Q; q++)
            totals[m * stride + q] = load(start + q * W);
        for (int k = 2 * Q * W; k < 4 * Q * W; k += LINE)
            __builtin_prefetch(start + k); /* of the next panels: rows of a table lie anywhere */
    }
    add_products<M, Q>(product.input, row, totals, stride);
    add_products<M, Q>(product.recurrent, row, totals, stride);
    for (int m = 0; m < M && HOLDS_TOTALS; m++)
        for (int q = 0; q < 2 * Q; q++)
            out[m * out_stride + q] = totals[m * stride + q];
}

template <int M, int Q>
static void multiply_rows(const ProductSum &product, Size row, Size n_rows) {
    if (n_rows == M)
        multiply_tile<M, Q>(product, row);
    else if constexpr (M > 1)
        multiply_rows<M - 1, Q>(product, row, n_rows);
}

/* All rows times Q panels, in tiles of about equal height. */
template <int Q>
static void multiply_panels(const ProductSum &product, Size n_rows) {
    const Size n_tiles = (n_rows + ROWS - 1) / ROWS;
    for (Size row = 0, tile = 0; tile < n_tiles; tile++) {
        Size height = (n_rows - row + n_tiles - tile - 1) / (n_tiles - tile);
        multiply_rows<ROWS / Q, Q>(product, row, height);
        row += height;
    }
}

/* Panels to multiply at once, more for few rows: enough independent sums to hide the latency of an addition. */
INLINE int count_panels(Size n_rows) { return n_rows * 4 <= ROWS ? 4 : n_rows * 2 <= ROWS ? 2 : 1; }

static void multiply_all(ProductSum product, Size n_rows, Size n_panels) {
    while (n_panels > 0) {
        int n = count_panels(n_rows);
        while (n > n_panels)
            n /= 2;
        n == 4 ? multiply_panels<4>(product, n_rows) : n == 2 ? multiply_panels<2>(product, n_rows) : multiply_panels<1>(product, n_rows);
        n_panels -= n, product.input.panels += n * product.input.panel_size, product.recurrent.panels += n * product.recurrent.panel_size;
        product.start_column += n * PANEL, product.out += n * PANEL;
    }
}

/* Rows as an operand: where the processor multiplies pairs, rounded to pairs of bfloat16. Inputs beyond the width
in the last 32 bits of weights are padding: 0 * NaN is NaN, so padding is cleared. */
INLINE Rows make_operand(float *rows, Size stride, Size width, Size n_rows, float *pairs) {
    for (Size m = 0; m < n_rows; m++)
        for (Size k = width; k < round_up(width, N_PACKED); k++)
            rows[m * stride + k] = 0;
    for (Size m = 0; m < n_rows && IS_PAIRED; m++)
        for (Size k = 0; k < width; k += PANEL) {
            const float *numbers = rows + m * stride + k;
            store(pairs + m * stride + k / 2, round_to_pairs(load(numbers), load(numbers + W)));
        }
    return {IS_PAIRED ? pairs : rows, stride, width};
}

static void compute_product(const Product &p) {
    const float *starts[BLOCK];
    for (const float *&start : starts)
        start = p.bias;
    for (Size row = 0; row < p.n_rows; row += BLOCK) {
        Size n = p.n_rows - row < BLOCK ? p.n_rows - row : (Size)BLOCK;
        Rows rows = {p.rows.first + row * p.rows.stride, p.rows.stride, p.rows.width};
        multiply_all({{rows, p.weights, p.panel_size}, {}, starts, p.out + row * p.out_stride, 0, p.out_stride}, n, p.n_panels);
    }
}

static bool multiply(const Product &p) {
    const Size stride = round_up(p.rows.width, PANEL) + ROW_PADDING;
    float *copies = TYPE == FLOAT32 ? nullptr : (float *)calloc(BLOCK * stride, sizeof(float));
    if (TYPE == FLOAT32)
        compute_product(p);
    for (Size row = 0; row < p.n_rows && copies; row += BLOCK) {
        Product block = p;
        block.n_rows = p.n_rows - row < BLOCK ? p.n_rows - row : (Size)BLOCK, block.out += row * p.out_stride;
        for (Size m = 0; m < block.n_rows; m++)
            memcpy(copies + m * stride, p.rows.first + (row + m) * p.rows.stride, 4 * p.rows.width);
        block.rows = make_operand(copies, stride, p.rows.width, block.n_rows, copies);
        compute_product(block);
    }
    free(copies);
    return copies || TYPE == FLOAT32;
}

INLINE Size count_lanes(const Task &t, Size step) {
    Size n = t.n_active[step] - t.first_lane;
    return n < 0 ? 0 : n < t.n_lanes ? n : t.n_lanes;
}

/* Size of a panel for n_in inputs. */
INLINE Size size_panel(Size n_in) { return ((n_in + N_PACKED - 1) / N_PACKED + N_SCALES) * PANEL; }

static void fill_gates(const Task &t, const Work &w, const Layer &layer, Size n_rows, Size width) {
    const Rows inputs = make_operand(w.gate_inputs, w.input_stride, width, n_rows, w.gate_inputs);
    compute_product({inputs, layer.input_weights, layer.bias, t.gates, n_rows, 4 * w.H / PANEL, size_panel(width), 4 * w.H, 0});
}

/* The gates of each slot from `begin` to before `end`, without the product of the previous outputs, are rows of a table.
Layer 1 has a row for each distinct word of as many steps as the table has room for; returns the end of these steps. */
static Size fill_word_gates(const Task &t, Work &w, Size begin) {
    Size n_rows = 0, slot = 0, step = begin;
    memset(w.gate_of_word, 0xff, sizeof(int32_t) * t.n_words);
    for (; step < t.n_steps; step++) {
        const Size at = step * t.n_plan_lanes + t.first_lane, n = count_lanes(t, step);
        if (step > begin && (slot + n > t.max_slots || (w.has_few_lanes ? slot : n_rows) + n > w.n_gates))
            break;
        for (Size m = 0; m < n; m++, slot++) {
            const int32_t token = t.tokens[at + m], word = t.words[token];
            const float *vector = t.vectors + word * t.input_width;
            if (t.token_rows)
                memcpy(t.token_rows + token * t.rows_stride, vector, 4 * t.input_width);
            if (w.gate_of_word[word] < 0) {
                w.gate_of_word[word] = (int32_t)n_rows;
                memcpy(w.gate_inputs + n_rows++ * w.input_stride, vector, 4 * t.input_width);
            }
            w.gate_of_slot[slot] = w.gate_of_word[word];
        }
    }
    fill_gates(t, w, t.layers[0], n_rows, t.input_width);
    return step;
}

/* An upper layer has a row for each slot, so that weights are read once for all steps of a few lanes. */
static void fill_slot_gates(const Task &t, Work &w, Size layer, Size begin, Size end) {
    const float *inputs = t.outputs + (layer - 1) * t.layer_stride;
    Size slot = 0;
    for (Size step = begin; step < end; step++)
        for (Size m = 0; m < count_lanes(t, step); m++, slot++) {
            const int32_t token = t.tokens[step * t.n_plan_lanes + t.first_lane + m];
            memcpy(w.gate_inputs + slot * w.input_stride, inputs + token * t.rows_stride, 4 * t.width);
            w.gate_of_slot[slot] = (int32_t)slot;
        }
    fill_gates(t, w, t.layers[layer], slot, t.width);
}

/* One step of n lanes of a layer. gate_rows: the row of the table of each lane, or null: gates are computed from inputs. Layer
1 has rows, and needs no inputs. */
static void run_step(const Task &t, const Work &w, Size index, Size step, Size n, const int32_t *gate_rows) {
    const Layer &layer = t.layers[index];
    const Size at = step * t.n_plan_lanes + t.first_lane;
    const int32_t *tokens = t.tokens + at, *starting = t.starting + at;
    const int n_panels = count_panels(n) == 4 ? 4 : 2, n_cells = n_panels * W / 2;
    const float *outputs_below = t.outputs + (index - 1) * t.layer_stride;
    float *all_h = w.h + index * t.n_lanes * w.h_stride, *all_c = w.c + index * t.n_lanes * w.c_stride;
    for (Size m = 0; m < n; m++) {
        if (starting[m] >= 0) {
            memcpy(all_h + m * w.h_stride, layer.start_h + starting[m] * t.width, 4 * t.width);
            memcpy(all_c + m * w.c_stride, layer.start_c + starting[m] * t.cell_width, 4 * t.cell_width);
        }
        if (index)
            memcpy(w.inputs + m * w.h_stride, outputs_below + tokens[m] * t.rows_stride, 4 * t.width);
        w.starts[m] = gate_rows ? t.gates + gate_rows[m] * 4 * w.H : layer.bias;
    }
    const Rows inputs = index ? make_operand(w.inputs, w.h_stride, t.width, n, w.pairs) : Rows{};
    const Rows outputs = make_operand(all_h, w.h_stride, t.width, n, w.pairs + t.n_lanes * w.h_stride);
    const Size panel_size = size_panel(t.width);
    ProductSum gates = {{inputs, layer.input_weights, panel_size}, {outputs, layer.recurrent_weights, panel_size},
                        w.starts, w.cell_gates, 0, n_panels * PANEL};
    if (gate_rows)
        gates.input = {};
    for (Size cell = 0; cell < w.H; cell += n_cells) {
        multiply_all(gates, n, n_panels);
        for (Size m = 0; m < n; m++)
            for (Size k = 0; k < n_cells; k += W)
                update_cells(w.cell_gates + m * n_panels * PANEL + 4 * k, all_c + m * w.c_stride + cell + k,
                             w.cell_outputs + m * w.c_stride + cell + k, t.cell_clip);
        gates.input.panels += n_panels * gates.input.panel_size, gates.recurrent.panels += n_panels * panel_size;
        gates.start_column += n_panels * PANEL;
    }
    if (layer.projection) {
        const Rows cell_outputs = make_operand(w.cell_outputs, w.c_stride, t.cell_width, n, w.cell_outputs);
        multiply_all({{cell_outputs, layer.projection, size_panel(t.cell_width)}, {}, w.zero_starts, all_h, 0, w.h_stride}, n, w.P / PANEL);
    }
    for (Size m = 0; m < n; m++)
        for (Size k = 0; k < w.P; k += W) {
            float *h = all_h + m * w.h_stride + k;
            store(h, layer.projection ? clip(load(h), t.projection_clip) : load(w.cell_outputs + m * w.c_stride + k));
        }
    if (layer.highway) /* its scores take the place of the outputs of the cells */
        multiply_all({{inputs, layer.highway, panel_size}, {}, w.highway_starts, w.cell_outputs, 0, w.h_stride}, n, w.P / PANEL);
    for (Size m = 0; m < n; m++) {
        const float *h = all_h + m * w.h_stride, *scores = layer.highway ? w.cell_outputs + m * w.h_stride : nullptr;
        write_outputs(h, w.inputs + m * w.h_stride, scores, t.has_skip && index, t.width,
                      t.outputs + index * t.layer_stride + tokens[m] * t.rows_stride);
        const int32_t end = t.ending ? t.ending[at + m] : -1;
        if (end >= 0) {
            memcpy(layer.end_h + end * t.width, h, 4 * t.width);
            memcpy(layer.end_c + end * t.cell_width, all_c + m * w.c_stride, 4 * t.cell_width);
        }
    }
}

static Size run_steps(const Task &t, Work &w, Size begin) {
    const Size end = fill_word_gates(t, w, begin);
    for (Size index = 0; index < t.n_layers; index++) {
        const bool has_table = index == 0 || w.has_few_lanes;
        if (index && w.has_few_lanes)
            fill_slot_gates(t, w, index, begin, end);
        for (Size m = 0; m < t.n_lanes; m++)
            w.highway_starts[m] = t.layers[index].highway_bias;
        const int32_t *gate_rows = w.gate_of_slot;
        for (Size step = begin; step < end; step++) {
            const Size n = count_lanes(t, step);
            run_step(t, w, index, step, n, has_table ? gate_rows : nullptr);
            gate_rows += n;
        }
    }
    return end;
}

static void free_work(Work &w) { free(w.memory), free(w.gate_of_word), free(w.starts); }

static bool allocate_work(const Task &t, Work &w) {
    const Size n = t.n_lanes;
    w.H = round_up(t.cell_width, PANEL), w.P = round_up(t.width, PANEL), w.h_stride = w.P + ROW_PADDING, w.c_stride = w.H + ROW_PADDING;
    w.input_stride = round_up(t.input_width > t.width ? t.input_width : t.width, PANEL) + ROW_PADDING;
    w.n_gates = t.max_gates / (4 * w.H) > n ? t.max_gates / (4 * w.H) : n;
    w.has_few_lanes = n <= t.few_lanes;
    const Size n_outputs = w.c_stride > w.h_stride ? w.c_stride : w.h_stride;
    const Size sizes[] = {t.n_layers * n * w.h_stride, t.n_layers * n * w.c_stride, n * w.h_stride, n * n_outputs, n * 4 * PANEL,
                          w.P, w.n_gates * w.input_stride, IS_PAIRED ? 2 * n * w.h_stride : 0};
    float **arrays[] = {&w.h, &w.c, &w.inputs, &w.cell_outputs, &w.cell_gates, &w.zeros, &w.gate_inputs, &w.pairs};
    Size total = 0;
    for (Size size : sizes)
        total += size;
    w.memory = (float *)calloc(total + LINE, sizeof(float));
    w.gate_of_word = (int32_t *)malloc(sizeof(int32_t) * (t.n_words + t.max_slots + n));
    w.starts = (const float **)calloc(3 * n, sizeof(float *));
    if (!w.memory || !w.gate_of_word || !w.starts) {
        free_work(w);
        return false;
    }
    float *memory = (float *)round_up((Size)w.memory, 4 * LINE); /* no vector is in two lines of the cache */
    for (int k = 0; k < 8; k++)
        *arrays[k] = memory, memory += sizes[k];
    w.gate_of_slot = w.gate_of_word + t.n_words;
    w.zero_starts = w.starts + n, w.highway_starts = w.starts + 2 * n;
    for (Size m = 0; m < n; m++)
        w.zero_starts[m] = w.zeros;
    return true;
}

static constexpr Functions functions() { return {multiply, allocate_work, run_steps, free_work}; }

};

}  // namespace

extern const Kernel KERNEL;
const Kernel KERNEL = {
    NAME, PANEL, {Recurrence<FLOAT32>::functions(), Recurrence<BFLOAT16>::functions(), Recurrence<INT8>::functions()}};

#endif
