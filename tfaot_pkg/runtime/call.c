/* One call of a model's library on NumPy arrays that fit already: dtype, shape, contiguous.
 *
 * quick.py compiles this file for the user's Python and NumPy. A Call returns the outputs by name, or None for everything
 * else - lists, other dtypes, wrong shapes, errors of the library -, which the loader's own code then converts or rejects.
 * A Method takes the place of Model.__call__: a function of Python that passes its arguments on costs more than all else.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_TENSORS 32
#define MOST_AXES 16
#define MESSAGE_SIZE 256 /* TFAOT_MESSAGE_SIZE */

typedef int32_t (*Compute)(const void*, int64_t, const void* const*, void* const*, void*, size_t, char*, size_t);

typedef struct {
  PyObject* name;
  int type;
  int rank;
  int has_batch;
  npy_intp sizes[MOST_AXES];
} Tensor;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Compute compute;
  const void* code;
  PyObject* owner; /* keeps the library loaded */
  PyObject* out;   /* the word "out" */
  Py_ssize_t inputs, outputs, batch_sizes;
  int64_t* batches;   /* the sizes that run as they are; NULL if all do */
  int64_t release_at; /* rows from which other threads of Python run meanwhile */
  Tensor tensors[MOST_TENSORS];
} Call;

/* The array's rows, or -1 if it does not fit `wanted`; 0 without a batch axis. */
static npy_intp rows_of(const Tensor* wanted, PyObject* value) {
  if (!PyArray_CheckExact(value)) return -1;
  PyArrayObject* array = (PyArrayObject*)value;
  if (PyArray_TYPE(array) != wanted->type || PyArray_NDIM(array) != wanted->rank || !PyArray_ISCARRAY_RO(array)) return -1;
  const npy_intp* sizes = PyArray_DIMS(array);
  for (int axis = wanted->has_batch; axis < wanted->rank; ++axis)
    if (sizes[axis] != wanted->sizes[axis]) return -1;
  return wanted->has_batch ? sizes[0] : 0;
}

static int find(const Call* self, PyObject* name) {
  for (int i = 0; i < self->inputs; ++i)
    if (self->tensors[i].name == name) return i;
  for (int i = 0; i < self->inputs; ++i)
    if (PyUnicode_Compare(self->tensors[i].name, name) == 0) return i;
  return -1;
}

static int runs(const Call* self, int64_t rows) {
  if (self->batches == NULL) return rows > 0;
  for (Py_ssize_t i = 0; i < self->batch_sizes; ++i)
    if (self->batches[i] == rows) return 1;
  return 0;
}

/* The caller's array for an output, borrowed; NULL if it does not fit, or shares memory with an input. */
static PyObject* given(const Call* self, int number, PyObject* out, int64_t rows, const void* const* inputs, PyObject** held) {
  const Tensor* wanted = &self->tensors[self->inputs + number];
  PyObject* array = PyDict_CheckExact(out) ? PyDict_GetItemWithError(out, wanted->name) : self->outputs == 1 ? out : NULL;
  if (array == NULL) return NULL;
  npy_intp found = rows_of(wanted, array);
  if (found < 0 || (wanted->has_batch && found != rows) || !PyArray_ISWRITEABLE((PyArrayObject*)array)) return NULL;
  const char* begin = PyArray_BYTES((PyArrayObject*)array);
  const char* end = begin + PyArray_NBYTES((PyArrayObject*)array);
  for (Py_ssize_t i = 0; i < self->inputs; ++i) {
    const char* from = (const char*)inputs[i];
    if (from < end && begin < from + PyArray_NBYTES((PyArrayObject*)held[i])) return NULL;
  }
  return array;
}

static PyObject* made(const Tensor* tensor, int64_t rows) {
  npy_intp sizes[MOST_AXES];
  for (int axis = 0; axis < tensor->rank; ++axis) sizes[axis] = tensor->sizes[axis];
  if (tensor->has_batch) sizes[0] = (npy_intp)rows;
  return PyArray_SimpleNew(tensor->rank, sizes, tensor->type);
}

static PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  Call* self = (Call*)callable;
  const Py_ssize_t positional = PyVectorcall_NARGS(flags), named = names ? PyTuple_GET_SIZE(names) : 0;
  PyObject *held[MOST_TENSORS] = {NULL}, *out = NULL;
  const void* inputs[MOST_TENSORS];
  void* outputs[MOST_TENSORS];
  if (positional > self->inputs) Py_RETURN_NONE;
  for (Py_ssize_t i = 0; i < positional; ++i) held[i] = args[i];
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    const int place = find(self, name);
    if (place >= 0 && held[place] == NULL) held[place] = args[positional + i];
    else if (place < 0 && PyUnicode_Compare(name, self->out) == 0) out = args[positional + i];
    else Py_RETURN_NONE;
  }
  int64_t rows = -1;
  for (Py_ssize_t i = 0; i < self->inputs; ++i) {
    const npy_intp found = held[i] == NULL ? -1 : rows_of(&self->tensors[i], held[i]);
    if (found < 0) Py_RETURN_NONE;
    if (self->tensors[i].has_batch) {
      if (rows >= 0 && rows != found) Py_RETURN_NONE;
      rows = found;
    }
    inputs[i] = PyArray_DATA((PyArrayObject*)held[i]);
  }
  if (!runs(self, rows)) Py_RETURN_NONE;
  PyObject* result = PyDict_New();
  if (result == NULL) return NULL;
  for (Py_ssize_t i = 0; i < self->outputs; ++i) {
    const Tensor* tensor = &self->tensors[self->inputs + i];
    PyObject* array = out == NULL ? made(tensor, rows) : Py_XNewRef(given(self, (int)i, out, rows, inputs, held));
    if (array == NULL || PyDict_SetItem(result, tensor->name, array) < 0) {
      Py_XDECREF(array);
      Py_DECREF(result);
      if (PyErr_Occurred()) return NULL;
      Py_RETURN_NONE;
    }
    outputs[i] = PyArray_DATA((PyArrayObject*)array);
    Py_DECREF(array);
  }
  char message[MESSAGE_SIZE];
  int32_t status;
  if (rows >= self->release_at) {
    Py_BEGIN_ALLOW_THREADS
    status = self->compute(self->code, rows, inputs, outputs, NULL, 0, message, sizeof message);
    Py_END_ALLOW_THREADS
  } else {
    status = self->compute(self->code, rows, inputs, outputs, NULL, 0, message, sizeof message);
  }
  if (status == 0) return result;
  Py_DECREF(result);
  Py_RETURN_NONE;
}

/* `each` is (name, type number of NumPy, whether it has a batch axis, sizes with anything for the batch). */
static int read_tensor(Tensor* tensor, PyObject* each) {
  PyObject* sizes;
  if (!PyArg_ParseTuple(each, "UipO!", &tensor->name, &tensor->type, &tensor->has_batch, &PyTuple_Type, &sizes)) return -1;
  if (PyTuple_GET_SIZE(sizes) > MOST_AXES) {
    PyErr_SetString(PyExc_ValueError, "too many axes");
    return -1;
  }
  tensor->rank = (int)PyTuple_GET_SIZE(sizes);
  for (int axis = 0; axis < tensor->rank; ++axis) tensor->sizes[axis] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, axis));
  if (PyErr_Occurred()) return -1;
  Py_INCREF(tensor->name);
  PyUnicode_InternInPlace(&tensor->name); /* as the names in a call are: find() then compares addresses */
  return 0;
}

static void deallocate(PyObject* object) {
  Call* self = (Call*)object;
  for (int i = 0; i < MOST_TENSORS; ++i) Py_XDECREF(self->tensors[i].name);
  PyMem_Free(self->batches);
  Py_XDECREF(self->owner);
  Py_XDECREF(self->out);
  Py_TYPE(object)->tp_free(object);
}

static PyObject* create(PyTypeObject* type, PyObject* args, PyObject* named) {
  (void)named;
  unsigned long long compute, code;
  long long release_at;
  PyObject *owner, *inputs, *outputs, *batches;
  if (!PyArg_ParseTuple(args, "KKOO!O!O!L", &compute, &code, &owner, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                        &PyTuple_Type, &batches, &release_at))
    return NULL;
  if (PyTuple_GET_SIZE(inputs) + PyTuple_GET_SIZE(outputs) > MOST_TENSORS) {
    PyErr_SetString(PyExc_ValueError, "too many tensors");
    return NULL;
  }
  Call* self = (Call*)type->tp_alloc(type, 0); /* zeros */
  if (self == NULL) return NULL;
  self->vectorcall = call;
  self->compute = (Compute)(uintptr_t)compute;
  self->code = (const void*)(uintptr_t)code;
  self->owner = Py_NewRef(owner);
  self->out = PyUnicode_InternFromString("out");
  self->release_at = release_at;
  self->inputs = PyTuple_GET_SIZE(inputs);
  self->outputs = PyTuple_GET_SIZE(outputs);
  self->batch_sizes = PyTuple_GET_SIZE(batches);
  for (Py_ssize_t i = 0; i < self->inputs + self->outputs; ++i) {
    PyObject* each = i < self->inputs ? PyTuple_GET_ITEM(inputs, i) : PyTuple_GET_ITEM(outputs, i - self->inputs);
    if (read_tensor(&self->tensors[i], each) < 0) goto failed;
  }
  if (self->batch_sizes) {
    self->batches = PyMem_Malloc(sizeof(int64_t) * (size_t)self->batch_sizes);
    if (self->batches == NULL) goto failed;
    for (Py_ssize_t i = 0; i < self->batch_sizes; ++i)
      self->batches[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(batches, i));
    if (PyErr_Occurred()) goto failed;
  }
  return (PyObject*)self;
failed:
  Py_DECREF(self);
  return NULL;
}

static PyTypeObject call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tfaot_call.Call",
    .tp_basicsize = sizeof(Call),
    .tp_dealloc = deallocate,
    .tp_vectorcall_offset = offsetof(Call, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = create,
};

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* otherwise; /* the function for what a Call does not take */
  PyObject* wrapped;   /* the function whose place this one takes: its signature and documentation */
  PyObject* quick;     /* the word "_quick" */
} Method;

static PyObject* call_method(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  Method* self = (Method*)callable;
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count > 0) { /* the model, in front of what it is called with */
    PyObject* quick = PyObject_GetAttr(args[0], self->quick);
    if (quick == NULL) return NULL;
    PyObject* found = Py_TYPE(quick) == &call_type ? call(quick, args + 1, (size_t)(count - 1), names) : Py_NewRef(Py_None);
    Py_DECREF(quick);
    if (found != Py_None) return found;
    Py_DECREF(found);
  }
  return PyObject_Vectorcall(self->otherwise, args, flags, names);
}

static PyObject* bound(PyObject* method, PyObject* model, PyObject* type) {
  (void)type;
  return model == NULL || model == Py_None ? Py_NewRef(method) : PyMethod_New(method, model);
}

static void deallocate_method(PyObject* object) {
  Method* self = (Method*)object;
  Py_XDECREF(self->otherwise);
  Py_XDECREF(self->wrapped);
  Py_XDECREF(self->quick);
  Py_TYPE(object)->tp_free(object);
}

static PyObject* create_method(PyTypeObject* type, PyObject* args, PyObject* named) {
  (void)named;
  PyObject *otherwise, *wrapped;
  if (!PyArg_ParseTuple(args, "OO", &otherwise, &wrapped)) return NULL;
  Method* self = (Method*)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->vectorcall = call_method;
  self->otherwise = Py_NewRef(otherwise);
  self->wrapped = Py_NewRef(wrapped);
  self->quick = PyUnicode_InternFromString("_quick");
  return (PyObject*)self;
}

static PyMemberDef method_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(Method, wrapped), READONLY, NULL},
    {NULL},
};

static PyObject* doc_of_method(PyObject* object, void* unused) {
  (void)unused;
  return PyObject_GetAttrString(((Method*)object)->wrapped, "__doc__");
}

static PyGetSetDef method_properties[] = {{"__doc__", doc_of_method, NULL, NULL, NULL}, {NULL}};

static PyTypeObject method_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tfaot_call.Method",
    .tp_basicsize = sizeof(Method),
    .tp_dealloc = deallocate_method,
    .tp_vectorcall_offset = offsetof(Method, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = bound,
    .tp_members = method_members,
    .tp_getset = method_properties,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = create_method,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tfaot_call", .m_size = -1};

PyMODINIT_FUNC PyInit_tfaot_call(void) {
  import_array();
  if (PyType_Ready(&call_type) < 0 || PyType_Ready(&method_type) < 0) return NULL;
  PyObject* module = PyModule_Create(&definition);
  if (module != NULL && (PyModule_AddObject(module, "Call", Py_NewRef((PyObject*)&call_type)) < 0 ||
                         PyModule_AddObject(module, "Method", Py_NewRef((PyObject*)&method_type)) < 0)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
