"""Is this wheel, receipt or installation what it says it is? Told with the standard library alone.

``python -m patchset.verify TARGET``, or as one file, ``python verify.pyz TARGET``, on a host that has nothing else of this
project. Nothing of the target is imported, run or unpacked to disk.

``model`` is what is found, ``text`` how it is told; ``bounded`` reads files and JSON, ``archive`` wheels, ``records`` RECORD,
``claims`` the record and the receipt, ``site`` installed packages; ``trees`` makes git's object ids; ``identity``,
``content``, ``beside``, ``sbom``, ``owners`` and ``shadow`` are the checks; ``wheel``, ``receipt`` and ``installed`` put them together.
"""

from .model import Check, Finding, Kind, Report, Unusable, exit_codes
from .target import verify
from .text import error_lines, lines_of

__all__ = ["Check", "Finding", "Kind", "Report", "Unusable", "error_lines", "exit_codes", "lines_of", "verify"]
