"""Neither CUDA nor ROCm; the device is chosen by VLLM_TARGET_DEVICE."""

cuda = None
hip = None
xpu = None
