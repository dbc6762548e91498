"""vLLM's Triton kernels against references, on any interpreter that has torch, triton and numpy.

This package runs alone: it imports nothing else of ``patchset``, and torch, triton and numpy only in the child process
that runs a lane. ``python -m patchset.smoke --help`` says how. Its parts:

* :mod:`~patchset.smoke.catalogue`: which kernels there are, in which files and releases;
* :mod:`~patchset.smoke.extract`: a kernel cut out of a wheel, a tree or an installed vLLM, without importing vLLM;
* ``cases_*`` and ``references_*``: inputs, and what must come out, in NumPy;
* :mod:`~patchset.smoke.lanes`: ways to run them; :mod:`~patchset.smoke.worker` is the child process of every lane;
* :mod:`~patchset.smoke.runner`: the children, and what to make of one that died;
* :mod:`~patchset.smoke.report`: the result, as JSON and for a person.
"""
