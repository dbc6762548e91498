"""Which patch, which release, or which pair of both: the change at which a test turns from good to bad.

``refs`` and ``line`` say what lies between two ends, ``states`` makes trees of it, ``trial`` runs the test on one, and
``search``, ``minimal`` and ``evidence`` decide, as pure functions, what to test next and what follows. ``session`` remembers.
"""
