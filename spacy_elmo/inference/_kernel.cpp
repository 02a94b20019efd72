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

/* Copy a record that Python has packed. RECORD has a field `type`, which must be one of `Type`. */
template <typename RECORD>
static bool read_record(PyObject *packed, RECORD &record) {
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(packed, &bytes, &size) < 0)
        return false;
    if (size != sizeof(RECORD)) {
        PyErr_Format(PyExc_ValueError, "The record has %zd bytes, but should have %zd.", size, sizeof(RECORD));
        return false;
    }
    memcpy(&record, bytes, sizeof(RECORD));
    if (record.type >= 0 && record.type < N_TYPES)
        return true;
    PyErr_Format(PyExc_ValueError, "The type of the weights is %lld, but should be 0 to %d.", (long long)record.type, N_TYPES - 1);
    return false;
}

static PyObject *run(PyObject *, PyObject *packed) {
    Task task;
    Work work = {};
    bool has_memory;
    if (!read_record(packed, task))
        return nullptr;
    const Functions &functions = kernel->functions[task.type];
    Py_BEGIN_ALLOW_THREADS
    has_memory = functions.allocate_work(task, work);
    Py_END_ALLOW_THREADS
    if (!has_memory)
        return PyErr_NoMemory();
    for (Size step = 0; step < task.n_steps && !PyErr_CheckSignals();) {
        Py_BEGIN_ALLOW_THREADS
        step = functions.run(task, work, step);
        Py_END_ALLOW_THREADS
    }
    functions.free_work(work);
    if (PyErr_Occurred())
        return nullptr;
    Py_RETURN_NONE;
}

static PyObject *multiply(PyObject *, PyObject *packed) {
    Product product;
    bool has_memory;
    if (!read_record(packed, product))
        return nullptr;
    Py_BEGIN_ALLOW_THREADS
    has_memory = kernel->functions[product.type].multiply(product);
    Py_END_ALLOW_THREADS
    if (!has_memory)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* The layout of the records, in the form that `numpy.dtype` takes. */

struct Field {
    const char *name;
    Size size, offset;
};

#define FIELD(record, name) {#name, sizeof(record::name), offsetof(record, name)}

static const Field layer_fields[] = {
    FIELD(Layer, input_weights), FIELD(Layer, recurrent_weights), FIELD(Layer, bias), FIELD(Layer, projection),
    FIELD(Layer, highway), FIELD(Layer, highway_bias), FIELD(Layer, start_h), FIELD(Layer, start_c), FIELD(Layer, end_h),
    FIELD(Layer, end_c)};

static const Field task_fields[] = {
    FIELD(Task, layers), FIELD(Task, vectors), FIELD(Task, words), FIELD(Task, tokens), FIELD(Task, n_active),
    FIELD(Task, starting), FIELD(Task, ending), FIELD(Task, token_rows), FIELD(Task, outputs), FIELD(Task, gates),
    FIELD(Task, n_layers), FIELD(Task, input_width), FIELD(Task, width), FIELD(Task, cell_width), FIELD(Task, has_skip),
    FIELD(Task, n_words), FIELD(Task, rows_stride), FIELD(Task, layer_stride), FIELD(Task, n_steps),
    FIELD(Task, n_plan_lanes), FIELD(Task, first_lane), FIELD(Task, n_lanes), FIELD(Task, max_gates), FIELD(Task, max_slots),
    FIELD(Task, few_lanes), FIELD(Task, type), FIELD(Task, cell_clip), FIELD(Task, projection_clip)};

static const Field product_fields[] = {
    {"rows", sizeof(const float *), offsetof(Product, rows.first)}, {"rows_stride", sizeof(Size), offsetof(Product, rows.stride)},
    {"n_in", sizeof(Size), offsetof(Product, rows.width)}, FIELD(Product, weights), FIELD(Product, bias), FIELD(Product, out),
    FIELD(Product, n_rows), FIELD(Product, n_panels), FIELD(Product, panel_size), FIELD(Product, out_stride),
    FIELD(Product, type)};

template <size_t N>
static bool add_layout(PyObject *layouts, const char *name, const Field (&fields)[N], size_t size) {
    PyObject *names = PyList_New(0), *formats = PyList_New(0), *offsets = PyList_New(0), *layout = nullptr;
    bool is_added = names && formats && offsets;
    for (size_t k = 0; k < N && is_added; k++) {
        PyObject *items[] = {PyUnicode_FromString(fields[k].name), PyUnicode_FromString(fields[k].size == 8 ? "<i8" : "<f4"),
                             PyLong_FromLongLong(fields[k].offset)};
        PyObject *lists[] = {names, formats, offsets};
        for (int i = 0; i < 3; i++) {
            is_added = is_added && items[i] && PyList_Append(lists[i], items[i]) == 0;
            Py_XDECREF(items[i]);
        }
    }
    if (is_added)
        layout = Py_BuildValue("{sOsOsOsn}", "names", names, "formats", formats, "offsets", offsets, "itemsize", (Py_ssize_t)size);
    is_added = layout && PyDict_SetItemString(layouts, name, layout) == 0;
    Py_XDECREF(names), Py_XDECREF(formats), Py_XDECREF(offsets), Py_XDECREF(layout);
    return is_added;
}

static bool add_layouts(PyObject *module) {
    PyObject *layouts = PyDict_New();
    const bool is_added = layouts && add_layout(layouts, "Layer", layer_fields, sizeof(Layer)) &&
                          add_layout(layouts, "Task", task_fields, sizeof(Task)) &&
                          add_layout(layouts, "Product", product_fields, sizeof(Product)) &&
                          PyObject_SetAttrString(module, "LAYOUTS", layouts) == 0;
    Py_XDECREF(layouts);
    return is_added;
}

static PyMethodDef methods[] = {
    {"run", run, METH_O, "See _kernel.pyi."},
    {"multiply", multiply, METH_O, "See _kernel.pyi."},
    {},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__kernel(void) {
    if (!choose_kernel())
        return nullptr;
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddIntConstant(module, "PANEL_WIDTH", kernel->panel_width) < 0 ||
                   PyModule_AddIntConstant(module, "N_TYPES", N_TYPES) < 0 || !add_layouts(module) ||
                   PyModule_AddStringConstant(module, "INSTRUCTION_SET", kernel->name) < 0)) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
