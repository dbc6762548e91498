"""The program that talks to an endpoint: ``python -m patchset.gates.client JOB RESULT`` in an environment of its own.

Nothing of this project but this folder is imported by it, and nothing but :mod:`patchset.gates.run` starts it. It records what it
is told and when; it judges nothing but whether an answer can be read at all.
"""
