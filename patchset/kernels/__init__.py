"""What is in a ``vllm-xpu-kernels`` wheel, read without loading it, and what that means for a recipe.

:mod:`have` brings the wheel, :mod:`read` and :mod:`ops` read it, :mod:`calls` reads what the patched tree wants of it,
:mod:`beside` the torch that it is to run with, :mod:`judge` compares, :mod:`show` shows, :mod:`task` does all of it.
"""
