"""Is this wheel, receipt or installation what it says it is? Told with the standard library alone.

``python -m patchset.verify TARGET``, or as one file, ``python verify.pyz TARGET``, on a host that has nothing else of this
project. Nothing of the target is imported, run or unpacked to disk.

A wheel by itself can only be of one piece: its files make the tree that its version and record name. That this is the tree
you want is for a receipt, a sha256 or an attestation to say that came another way. Of what no tree has, the version file is
read; until then the rest (METADATA, entry points, extensions) rests on the wheel's own word.

``model`` is what is found, ``text`` how it is told; ``bounded`` reads files and JSON, ``archive`` wheels, ``records`` RECORD,
``claims`` the record and the receipt, ``site`` installed packages; ``trees`` makes git's object ids; ``identity``,
``content``, ``generated``, ``beside``, ``sbom``, ``owners``, ``bytecode``, ``shadow`` and ``startup`` (which look for ``copies``)
are the checks; ``wheel``, ``receipt`` and ``installed`` put them together.
"""

from .model import USAGE, Check, Finding, Kind, Report, Unusable, exit_codes
from .target import verify
from .text import error_lines, lines_of

__all__ = ["USAGE", "Check", "Finding", "Kind", "Report", "Unusable", "error_lines", "exit_codes", "lines_of", "verify"]
