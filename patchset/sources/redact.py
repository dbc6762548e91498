"""Credentials out of anything that a person, a log or a receipt will see."""

from __future__ import annotations

import re

# Greedy up to the last @ before a slash: people do not always percent-encode an @ in a password.
_USER_INFO = re.compile(r"(?<=://)[^/\s]*@")
# Signed links of object stores carry their secret in the query.
_QUERY = re.compile(r"(://[^\s?#]*)\?[^\s#]+")


def hide(text: str) -> str:
    """*text* with the user, password and query of every URL in it replaced by asterisks."""
    return _QUERY.sub(r"\1?***", _USER_INFO.sub("***@", text))
