"""A pin becomes a base tree, in one of two ways that give the same tree id: an archive, or a git checkout.

``index`` finds archives by the user's pip configuration, ``archive`` brings and keeps them, ``extract`` unpacks them
safely, ``checkout`` asks git hosts, ``base`` puts these together. Nothing of an upstream is ever executed here.
"""

from patchset.sources.base import (
    ArchiveRecord,
    BaseTree,
    Pin,
    base_from_archive,
    base_from_checkout,
    default_filename,
    known_archives,
    resolve,
)

__all__ = [
    "ArchiveRecord",
    "BaseTree",
    "Pin",
    "base_from_archive",
    "base_from_checkout",
    "default_filename",
    "known_archives",
    "resolve",
]
