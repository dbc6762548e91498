"""Which files a ``.dist-info`` folder of vLLM has, and which of them an installer adds."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OF_THE_WHEEL = re.compile(
    r"METADATA|WHEEL|RECORD|entry_points\.txt|top_level\.txt|patchset\.json|licenses/[^/]+|sboms/[^/]+\.json"
)

#: What pip and uv write into it (specification "Recording installed projects", and uv's cache note).
INSTALLERS = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json")


def stray_names(names: Iterable[str], added: Iterable[str]) -> list[str]:
    """Those of *names* that neither a wheel has nor *added* allows."""
    return sorted(name for name in names if not _OF_THE_WHEEL.fullmatch(name) and name not in added)
