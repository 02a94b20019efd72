/* Update LSTM cells in one pass over the gates. `lstm.py` describes the computation and has it in torch. */

#include "../_elements.h"

/* Numbers of arrays in float32 or bfloat16. */
INLINE float get(const void *array, Py_ssize_t k, int is_bfloat16) {
    if (!is_bfloat16)
        return ((const float *)array)[k];
    Float number;
    number.bits = (int32_t)((uint32_t)((const uint16_t *)array)[k] << 16);
    return number.value;
}

INLINE void set(void *array, Py_ssize_t k, float value, int is_bfloat16) {
    Float number = {value};
    uint32_t bits = (uint32_t)number.bits;
    if (is_bfloat16)
        ((uint16_t *)array)[k] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    else
        ((float *)array)[k] = value;
}

/* One row. tanh(x) = (1 - exp(-2x)) / (1 + exp(-2x)). A row with values that are not finite is set to NaN, since all
values of its projection would be NaN too. */
INLINE void update_row(const void *acts, const void *added, float *c2, void *half, Py_ssize_t width,
                       float clip2, int is_bfloat16) {
    const Py_ssize_t J = width, F = 2 * width, O = 3 * width;
    int32_t is_bad = 0;
    ARRAYS_DIFFER
    for (Py_ssize_t k = 0; k < width; k++) {
        float a_i = get(acts, k, is_bfloat16), a_j = get(acts, J + k, is_bfloat16);
        float a_f = get(acts, F + k, is_bfloat16), a_o = get(acts, O + k, is_bfloat16);
        if (added) {
            a_i += get(added, k, is_bfloat16), a_j += get(added, J + k, is_bfloat16);
            a_f += get(added, F + k, is_bfloat16), a_o += get(added, O + k, is_bfloat16);
        }
        Float sum = {a_i + a_j + a_f + a_o + c2[k]};
        is_bad |= (sum.bits & 0x7f800000) == 0x7f800000;
        float i = exp_minus(a_i), j = exp_minus(a_j), f = exp_minus(a_f), o = exp_minus(a_o);
        float c = c2[k] / (1.0f + f) + 2.0f * (1.0f - j) / ((1.0f + i) * (1.0f + j));
        c = c < -clip2 ? -clip2 : c;
        c = c > clip2 ? clip2 : c;
        c2[k] = c;
        float e = exp_minus(c);
        set(half, k, 0.5f * (1.0f - e) / ((1.0f + e) * (1.0f + o)), is_bfloat16);
    }
    if (is_bad)
        memset(half, 0xff, width * (is_bfloat16 ? 2 : 4));
}

INLINE void update_all(const char *acts, const char *added, float *c2, char *half, Py_ssize_t n_rows, Py_ssize_t width,
                       float clip2, int is_bfloat16) {
    const Py_ssize_t size = (is_bfloat16 ? 2 : 4) * width;
    for (Py_ssize_t row = 0; row < n_rows; row++, acts += 4 * size, c2 += width, half += size) {
        if (added)
            update_row(acts, added + row * 4 * size, c2, half, width, clip2, is_bfloat16);
        else
            update_row(acts, NULL, c2, half, width, clip2, is_bfloat16);
    }
}

FOR_EACH_PROCESSOR
static void update_rows(const char *acts, const char *added, float *c2, char *half, Py_ssize_t n_rows, Py_ssize_t width,
                        float clip2, int is_bfloat16) {
    if (is_bfloat16)
        update_all(acts, added, c2, half, n_rows, width, clip2, 1);
    else
        update_all(acts, added, c2, half, n_rows, width, clip2, 0);
}

static PyObject *update(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 8) {
        PyErr_SetString(PyExc_TypeError, "update takes 8 arguments");
        return NULL;
    }
    void *arrays[4];
    for (int k = 0; k < 4; k++)
        arrays[k] = PyLong_AsVoidPtr(args[k]);
    Py_ssize_t n_rows = PyLong_AsSsize_t(args[4]), width = PyLong_AsSsize_t(args[5]);
    float clip2 = (float)PyFloat_AsDouble(args[6]);
    int is_bfloat16 = PyObject_IsTrue(args[7]);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    update_rows(arrays[0], arrays[1], arrays[2], arrays[3], n_rows, width, clip2, is_bfloat16);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"update", (PyCFunction)(void (*)(void))update, METH_FASTCALL, "See _cell.pyi."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_cell", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__cell(void) { return PyModule_Create(&definition); }
