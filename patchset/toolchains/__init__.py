"""Compilers that are fetched on first use, by hash, into ``vendor/``: nothing of the system is asked or changed.

:mod:`~patchset.toolchains.intel` is an environment with Triton's Intel backend and an OpenCL for the CPU;
:mod:`~patchset.toolchains.ocloc` is Intel's offline compiler, with the libraries that it wants.
"""
