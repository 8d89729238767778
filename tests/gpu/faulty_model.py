"""A model whose code breaks CUDA for its whole process, like any invalid access on a GPU."""

import ctypes

import numpy as np

from moorage_runtime.backends.python import PythonModel

_KERNEL = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry store() {
    .reg .u64 %address;
    mov.u64 %address, 64;
    st.global.u32 [%address], 0;
    ret;
}
"""


class Model(PythonModel):
    """Stores to an address that is not the GPU's, in the context that ONNX Runtime uses."""

    inputs = [("x", "INT32", [1])]
    outputs = [("status", "INT32", [1])]

    def predict(self, inputs, request):
        """Run the kernel; CUDA's status is the answer."""
        cuda = ctypes.CDLL("libcuda.so.1")
        context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuInit(0)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxSetCurrent(context)
        cuda.cuModuleLoadData(ctypes.byref(module), _KERNEL)
        cuda.cuModuleGetFunction(ctypes.byref(function), module, b"store")
        cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        return {"status": np.array([cuda.cuCtxSynchronize()], np.int32)}
