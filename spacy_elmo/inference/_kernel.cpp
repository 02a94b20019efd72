/* The module: the generic kernel, the choice among the kernels, and the functions for Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define KERNEL generic_kernel
#define NAME "generic"
#define W 4
#if defined(__aarch64__)
#include <arm_neon.h>
#define MAX_ROWS 12 /* 24 sums in 32 registers */
#else
#define MAX_ROWS 6
#endif
#include "_kernel.h"

#if defined(__x86_64__)
extern const Kernel avx2_kernel, avx512_kernel, avx512_bf16_kernel;
#endif

static const Kernel *kernel = &generic_kernel;

/* The fastest kernel for this processor, or the one that is named by an environment variable. */
static bool choose_kernel() {
    const Kernel *kernels[4] = {&generic_kernel};
    int n = 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        kernels[n++] = &avx2_kernel;
    if (n == 2 && __builtin_cpu_supports("avx512f"))
        kernels[n++] = &avx512_kernel;
#if defined(__clang__) || __GNUC__ >= 10
    if (n == 3 && __builtin_cpu_supports("avx512bf16"))
        kernels[n++] = &avx512_bf16_kernel;
#endif
#endif
    kernel = kernels[n - 1];
    const char *name = getenv("SPACY_ELMO_CPU_ISA");
    if (!name || !*name)
        return true;
    for (int k = 0; k < n; k++)
        if (strcmp(kernels[k]->name, name) == 0) {
            kernel = kernels[k];
            return true;
        }
    PyErr_Format(PyExc_ValueError,
                 "SPACY_ELMO_CPU_ISA is '%s', but should be one of those that this processor supports, from 'generic' to "
                 "'%s'. Choose one of them, or unset it.", name, kernels[n - 1]->name);
    return false;
}

/* Read integers and addresses into fields of 8 bytes, then floats. */
static bool read_fields(PyObject *const *args, Py_ssize_t n_args, void *fields, Py_ssize_t n_numbers, float *floats, Py_ssize_t n_floats) {
    static_assert(sizeof(void *) == 8, "fields have 8 bytes");
    if (n_args != n_numbers + n_floats) {
        PyErr_Format(PyExc_TypeError, "%zd arguments instead of %zd", n_args, n_numbers + n_floats);
        return false;
    }
    for (Py_ssize_t k = 0; k < n_numbers; k++) {
        int64_t value = PyLong_AsLongLong(args[k]);
        memcpy((char *)fields + 8 * k, &value, 8);
    }
    for (Py_ssize_t k = 0; k < n_floats; k++)
        floats[k] = (float)PyFloat_AsDouble(args[n_numbers + k]);
    return !PyErr_Occurred();
}

static PyObject *run(PyObject *, PyObject *const *args, Py_ssize_t n_args) {
    Task task = {};
    Work work = {};
    float clips[2];
    bool has_memory;
    if (!read_fields(args, n_args, &task, offsetof(Task, cell_clip) / 8, clips, 2))
        return nullptr;
    task.cell_clip = clips[0], task.projection_clip = clips[1];
    const Functions &functions = kernel->functions[task.type];
    Py_BEGIN_ALLOW_THREADS
    has_memory = functions.begin(task, work);
    Py_END_ALLOW_THREADS
    if (!has_memory)
        return PyErr_NoMemory();
    for (Size step = 0; step < task.n_steps && !PyErr_CheckSignals();) {
        Py_BEGIN_ALLOW_THREADS
        step = functions.run(task, work, step);
        Py_END_ALLOW_THREADS
    }
    functions.end(work);
    if (PyErr_Occurred())
        return nullptr;
    Py_RETURN_NONE;
}

static PyObject *multiply(PyObject *, PyObject *const *args, Py_ssize_t n_args) {
    Product fields = {};
    bool has_memory;
    if (!read_fields(args, n_args, &fields, sizeof(Product) / 8, nullptr, 0))
        return nullptr;
    Py_BEGIN_ALLOW_THREADS
    has_memory = kernel->functions[fields.type].multiply(fields);
    Py_END_ALLOW_THREADS
    if (!has_memory)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "See _kernel.pyi."},
    {"multiply", (PyCFunction)(void (*)(void))multiply, METH_FASTCALL, "See _kernel.pyi."},
    {},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__kernel(void) {
    if (!choose_kernel())
        return nullptr;
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddIntConstant(module, "PANEL_WIDTH", kernel->panel_width) < 0 ||
                   PyModule_AddIntConstant(module, "N_TYPES", N_TYPES) < 0 ||
                   PyModule_AddStringConstant(module, "INSTRUCTION_SET", kernel->name) < 0)) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
