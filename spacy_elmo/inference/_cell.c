/* Update LSTM cells in one pass over the gates. `lstm.py` describes the computation and has it in torch. */

#include "../_elements.h"

/* One row. tanh(x) = (1 - exp(-2x)) / (1 + exp(-2x)). A row with values that are not finite is set to NaN, since all
values of its projection would be NaN too. */
INLINE void update_row(const float *acts, const float *added, float *c2, float *half, Py_ssize_t width, float clip2) {
    const Py_ssize_t J = width, F = 2 * width, O = 3 * width;
    int32_t is_bad = 0;
    ARRAYS_DIFFER
    for (Py_ssize_t k = 0; k < width; k++) {
        float a_i = acts[k], a_j = acts[J + k];
        float a_f = acts[F + k], a_o = acts[O + k];
        if (added) {
            a_i += added[k], a_j += added[J + k];
            a_f += added[F + k], a_o += added[O + k];
        }
        Float sum = {a_i + a_j + a_f + a_o + c2[k]};
        is_bad |= (sum.bits & 0x7f800000) == 0x7f800000;
        float i = exp_minus(a_i), j = exp_minus(a_j), f = exp_minus(a_f), o = exp_minus(a_o);
        float c = c2[k] / (1.0f + f) + 2.0f * (1.0f - j) / ((1.0f + i) * (1.0f + j));
        c = c < -clip2 ? -clip2 : c;
        c = c > clip2 ? clip2 : c;
        c2[k] = c;
        float e = exp_minus(c);
        half[k] = 0.5f * (1.0f - e) / ((1.0f + e) * (1.0f + o));
    }
    if (is_bad)
        memset(half, 0xff, 4 * width);
}

FOR_EACH_PROCESSOR
static void update_rows(const float *acts, const float *added, float *c2, float *half, Py_ssize_t n_rows, Py_ssize_t width,
                        float clip2) {
    for (Py_ssize_t row = 0; row < n_rows; row++, acts += 4 * width, c2 += width, half += width) {
        if (added)
            update_row(acts, added + row * 4 * width, c2, half, width, clip2);
        else
            update_row(acts, NULL, c2, half, width, clip2);
    }
}

static PyObject *update(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 7) {
        PyErr_SetString(PyExc_TypeError, "update takes 7 arguments");
        return NULL;
    }
    void *arrays[4];
    for (int k = 0; k < 4; k++)
        arrays[k] = PyLong_AsVoidPtr(args[k]);
    Py_ssize_t n_rows = PyLong_AsSsize_t(args[4]), width = PyLong_AsSsize_t(args[5]);
    float clip2 = (float)PyFloat_AsDouble(args[6]);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    update_rows(arrays[0], arrays[1], arrays[2], arrays[3], n_rows, width, clip2);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"update", (PyCFunction)(void (*)(void))update, METH_FASTCALL, "See _cell.pyi."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_cell", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__cell(void) { return PyModule_Create(&definition); }
