/* Stands in for CPython's header while the native parts of vLLM 0.22.0-0.26.0 are compiled, whatever Python builds them.
 *
 * Written from the documented stable ABI ("C API Stability", "Stable Application Binary Interface", and the page of each
 * function and structure). It declares what `spinloop` and `fs_io_C` use and nothing else, so an extension that needs
 * more does not compile. What CPython offers as a macro or an inline function is here the exported function of the
 * same meaning; so the object never touches a reference count itself, which later versions of Python count otherwise.
 */
#ifndef Py_PYTHON_H
#define Py_PYTHON_H

#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 != 0x030B0000
#error "this Python.h is the stand-in of the patchset: it knows the stable ABI of Python 3.11 only"
#endif
#ifdef PY_SSIZE_T_CLEAN
#error "the stand-in's PyArg_ParseTuple takes no '#' formats, so it cannot keep what PY_SSIZE_T_CLEAN promises"
#endif
#if !defined(__linux__) || !defined(__LP64__)
#error "the stand-in knows the structures of 64-bit Linux only"
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#define PyMODINIT_FUNC extern "C" __attribute__((visibility("default"))) PyObject *
#else
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *
#endif

typedef long Py_ssize_t;

/* Objects. */
typedef struct _typeobject PyTypeObject;
typedef struct _object {
    Py_ssize_t ob_refcnt;
    PyTypeObject *ob_type;
} PyObject;

PyObject *Py_NewRef(PyObject *object);
void Py_DecRef(PyObject *object);
#define Py_DECREF(object) Py_DecRef(object)

extern PyObject _Py_TrueStruct;
extern PyObject _Py_FalseStruct;
#define Py_True (&_Py_TrueStruct)
#define Py_False (&_Py_FalseStruct)
#define Py_RETURN_TRUE return Py_NewRef(Py_True)
#define Py_RETURN_FALSE return Py_NewRef(Py_False)

/* Calls and their arguments. */
typedef PyObject *(*PyCFunction)(PyObject *self, PyObject *arguments);

#define METH_VARARGS 0x0001
#define METH_KEYWORDS 0x0002

typedef struct PyMethodDef {
    const char *ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;

int PyArg_ParseTuple(PyObject *arguments, const char *format, ...);
int PyArg_ParseTupleAndKeywords(PyObject *arguments, PyObject *keywords, const char *format, char **names, ...);
int PyCallable_Check(PyObject *object);
PyObject *PyObject_CallNoArgs(PyObject *callable);

/* Exceptions. */
extern PyObject *PyExc_RuntimeError;
extern PyObject *PyExc_TypeError;
void PyErr_SetString(PyObject *type, const char *message);

/* The lock of the interpreter. */
typedef struct _ts PyThreadState;
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *state);
#define Py_BEGIN_ALLOW_THREADS { PyThreadState *_save = PyEval_SaveThread();
#define Py_END_ALLOW_THREADS PyEval_RestoreThread(_save); }

/* Buffers: in the stable ABI from 3.11 on. */
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

void PyBuffer_Release(Py_buffer *buffer);

/* Lists, strings, truth. */
extern PyTypeObject PyList_Type;
PyObject *PyList_New(Py_ssize_t length);
Py_ssize_t PyList_Size(PyObject *list);
PyObject *PyList_GetItem(PyObject *list, Py_ssize_t index);
int PyList_SetItem(PyObject *list, Py_ssize_t index, PyObject *item);
const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size);
PyObject *PyBool_FromLong(long value);

/* Modules. */
typedef struct PyModuleDef_Base {
    PyObject ob_base;
    PyObject *(*m_init)(void);
    Py_ssize_t m_index;
    PyObject *m_copy;
} PyModuleDef_Base;

typedef struct PyModuleDef_Slot {
    int slot;
    void *value;
} PyModuleDef_Slot;

typedef int (*visitproc)(PyObject *object, void *argument);
typedef int (*traverseproc)(PyObject *self, visitproc visit, void *argument);
typedef int (*inquiry)(PyObject *self);
typedef void (*freefunc)(void *self);

typedef struct PyModuleDef {
    PyModuleDef_Base m_base;
    const char *m_name;
    const char *m_doc;
    Py_ssize_t m_size;
    PyMethodDef *m_methods;
    PyModuleDef_Slot *m_slots;
    traverseproc m_traverse;
    inquiry m_clear;
    freefunc m_free;
} PyModuleDef;

#define PyModuleDef_HEAD_INIT {{1, NULL}, NULL, 0, NULL}

/* Extensions of the stable ABI say that it is version 3 that they were compiled for. */
#define PYTHON_ABI_VERSION 3
PyObject *PyModule_Create2(PyModuleDef *definition, int abi_version);
#define PyModule_Create(definition) PyModule_Create2(definition, PYTHON_ABI_VERSION)
void *PyModule_GetState(PyObject *module);

#ifdef __cplusplus
}
#endif

#endif
