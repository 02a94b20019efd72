/* Compute the elements of a step of an LSTM for training in one pass: forward with all values that the backward pass
needs, and backward. `lstm.py` describes the computation and has it in torch.

Compiled with -ffinite-math-only, so that a clip takes one instruction; values that are not finite are detected by their
bits. */

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

/* A step of the forward pass, one row: i, j, f, o of pre + added; raw = i j + f c; cells = clip(raw); cell_outputs = o
tanh(cells). A row with values that are not finite gives NaN, since all values of its projection would be NaN too. */
INLINE void forward_row(const float *pre, const float *added, const float *before, float *i, float *j, float *f, float *o, float *raw,
                        float *cells, float *tanhs, float *cell_outputs, Py_ssize_t width, float clip) {
    const Py_ssize_t J = width, F = 2 * width, O = 3 * width;
    int32_t is_bad = 0;
    ARRAYS_DIFFER
    for (Py_ssize_t k = 0; k < width; k++) {
        float p_i = pre[k] + added[k], p_j = pre[J + k] + added[J + k];
        float p_f = pre[F + k] + added[F + k], p_o = pre[O + k] + added[O + k];
        Float sum = {p_i + p_j + p_f + p_o + before[k]};
        is_bad |= (sum.bits & 0x7f800000) == 0x7f800000;
        float e_j = exp_minus(2.0f * p_j), a_i = 1.0f / (1.0f + exp_minus(p_i)), a_j = (1.0f - e_j) / (1.0f + e_j);
        float a_f = 1.0f / (1.0f + exp_minus(p_f)), a_o = 1.0f / (1.0f + exp_minus(p_o));
        float c = a_i * a_j + a_f * before[k];
        i[k] = a_i, j[k] = a_j, f[k] = a_f, o[k] = a_o, raw[k] = c;
        c = c < -clip ? -clip : c;
        c = c > clip ? clip : c;
        float e = exp_minus(2.0f * c), t = (1.0f - e) / (1.0f + e);
        cells[k] = c, tanhs[k] = t, cell_outputs[k] = a_o * t;
    }
    if (is_bad)
        memset(cell_outputs, 0xff, width * sizeof(float));
}

FOR_EACH_PROCESSOR
static void forward_rows(const float *pre, const float *added, const float *before, float *acts, float *raw,
                         float *cells, float *tanhs, float *cell_outputs, Py_ssize_t gate, Py_ssize_t n_rows,
                         Py_ssize_t width, float clip) {
    for (Py_ssize_t row = 0; row < n_rows; row++) {
        Py_ssize_t at = row * width;
        float *own = acts + at;
        forward_row(pre + 4 * at, added + 4 * at, before + at, own, own + gate, own + 2 * gate, own + 3 * gate,
                    raw + at, cells + at, tanhs + at, cell_outputs + at, width, clip);
    }
}

/* A step of the backward pass, one row: from the gradients of `cell_outputs` and of the cells to those of the
pre-activations and of the cells before. */
INLINE void backward_row(const float *i, const float *j, const float *f, const float *o, const float *raw,
                         const float *tanhs, const float *before, const float *d_cell_outputs, float *d_c, float *d_pre,
                         Py_ssize_t width, float clip) {
    float *d_j = d_pre + width, *d_f = d_pre + 2 * width, *d_o = d_pre + 3 * width;
    ARRAYS_DIFFER
    for (Py_ssize_t k = 0; k < width; k++) {
        float d = d_cell_outputs[k], t = tanhs[k];
        d_o[k] = d * t * o[k] * (1.0f - o[k]);
        float d_cell = d * o[k] * (1.0f - t * t) + d_c[k];
        d_cell = fabsf(raw[k]) > clip ? 0.0f : d_cell;
        d_pre[k] = d_cell * j[k] * i[k] * (1.0f - i[k]);
        d_j[k] = d_cell * i[k] * (1.0f - j[k] * j[k]);
        d_f[k] = d_cell * before[k] * f[k] * (1.0f - f[k]);
        d_c[k] = d_cell * f[k];
    }
}

FOR_EACH_PROCESSOR
static void backward_rows(float *d_pre, const float *acts, const float *raw, const float *tanhs, const float *before,
                          const float *d_cell_outputs, float *d_c, Py_ssize_t gate, Py_ssize_t n_rows, Py_ssize_t width,
                          float clip) {
    for (Py_ssize_t row = 0; row < n_rows; row++) {
        Py_ssize_t at = row * width;
        const float *own = acts + at;
        backward_row(own, own + gate, own + 2 * gate, own + 3 * gate, raw + at, tanhs + at, before + at,
                     d_cell_outputs + at, d_c + at, d_pre + 4 * at, width, clip);
    }
}

/* Addresses, three sizes, the clip. */
static int read_arguments(PyObject *const *args, Py_ssize_t n_args, void **arrays, int n_arrays, Py_ssize_t *sizes,
                          float *clip) {
    if (n_args != n_arrays + 4) {
        PyErr_SetString(PyExc_TypeError, "wrong number of arguments");
        return 0;
    }
    for (int k = 0; k < n_arrays; k++)
        arrays[k] = PyLong_AsVoidPtr(args[k]);
    for (int k = 0; k < 3; k++)
        sizes[k] = PyLong_AsSsize_t(args[n_arrays + k]);
    *clip = (float)PyFloat_AsDouble(args[n_args - 1]);
    return !PyErr_Occurred();
}

static PyObject *forward(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    void *a[8];
    Py_ssize_t sizes[3];
    float clip;
    if (!read_arguments(args, n_args, a, 8, sizes, &clip))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    forward_rows(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], sizes[0], sizes[1], sizes[2], clip);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *backward(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    void *a[7];
    Py_ssize_t sizes[3];
    float clip;
    if (!read_arguments(args, n_args, a, 7, sizes, &clip))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    backward_rows(a[0], a[1], a[2], a[3], a[4], a[5], a[6], sizes[0], sizes[1], sizes[2], clip);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL, "See _recurrence.pyi."},
    {"backward", (PyCFunction)(void (*)(void))backward, METH_FASTCALL, "See _recurrence.pyi."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_recurrence", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__recurrence(void) { return PyModule_Create(&definition); }
