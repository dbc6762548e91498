"""The content of the small wheels that the tests of this folder make."""

from __future__ import annotations

import base64
import hashlib

VERSION = "0.23.0+xpu.b70.1a2b3c4d"
INFO = f"vllm-{VERSION}.dist-info"
FILES = {
    "vllm/__init__.py": b"from vllm._version import __version__\n",
    "vllm/v1/worker/mamba_utils.py": b"import torch\n\n\nPOINTERS = torch.uint64\n",
    "vllm/utils/numa_wrapper.sh": b'#!/bin/sh\nexec "$@"\n',
}
METADATA = f"""Metadata-Version: 2.4
Name: vllm
Version: {VERSION}
Requires-Dist: numpy
Requires-Dist: torch==2.11.0
Requires-Dist: vllm_xpu_kernels@ https://example.org/vllm_xpu_kernels-0.1.9-cp38-abi3-manylinux_2_28_x86_64.whl
Requires-Dist: nvidia-deepstream-videodecode-cu13>=9.0.2; extra == "deepstream"
Provides-Extra: deepstream

A description that mentions
Requires-Dist: nvidia-cuda-runtime
"""


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
