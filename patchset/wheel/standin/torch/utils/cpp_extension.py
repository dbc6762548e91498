"""No CUDA and no ROCm toolkit, whatever this machine has."""

CUDA_HOME = None
ROCM_HOME = None
