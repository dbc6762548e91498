"""Gates: a server is asked as its users would ask it, and what it answers is judged from the raw record.

``client/`` is a program for an environment of its own and measures; everything else here works without the network, on what it
wrote. The figures and the verdict are computed from the raw record alone, so that a file can be judged again at any time.
"""
