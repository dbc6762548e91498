"""What a program may take on the B70, in bytes. The compiler's own words; nothing is imported, so that every part can read it."""

from __future__ import annotations

#: Scratch of a hardware thread (PTSS).
SCRATCH = 262144
#: Shared memory of a program.
SHARED = 131072
#: Production's loader compiles anew with 256 registers if more than this many bytes of a thread spill.
SPILL_RETRY = 1000
