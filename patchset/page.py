"""What the HTML pages share: each is one file that needs nothing else, and no text in it may have any effect.

Every text of a document is untrusted: it goes through :func:`visible` and jinja2's escaping, and nothing but the page's
own style and script, named by their hashes, may do anything.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from patchset.errors import WorktreeError

if TYPE_CHECKING:
    from jinja2 import Environment

#: What is not seen, or makes other text be seen in another order: controls but tab and newline, formats, separators,
#: fillers, lone surrogates, what is no character. Written out, so that it is the same with every Python.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\ufdd0-\ufdef"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

#: Marks that are put over a letter: some are language, dozens climb over the lines above.
_MARKS = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+)"
)

#: Bytes of a file in which its title must stand for it to be one of our pages.
_HEAD = 20_000


def visible(text: str) -> str:
    """*text* with what is not seen, or reorders text, written as its number; of piled up marks the first four are kept."""
    text = _MARKS.sub(lambda found: f"{found[1]}⟨{len(found[2])} more marks⟩", text)
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def environment(templates: Path) -> Environment:
    """Templates of the folder *templates*, in which everything is shown as :func:`visible` and escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    """Jinja2 calls this with everything that goes into the page, before it escapes it."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def policy(style: str, script: str = "") -> str:
    """What the browser may use: this very style and script, and pictures that are in the page itself."""
    scripts = f"'{_hash(script)}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src {scripts}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def markup(text: str) -> object:
    """*text* as it stands: of our own files only."""
    from markupsafe import Markup

    return Markup(text)


def require_place(target: Path, title: str) -> None:
    """A page with that *title* may be written to *target*: asked before hours are spent on what it is to show.

    :raises WorktreeError: something else is there, or no file can be made there.
    """
    require_writable(target, "--html", lambda head: f"<title>{title}".encode() in head, f"a page {title!r}")


def require_writable(target: Path, flag: str, is_ours: Callable[[bytes], bool], name: str) -> None:
    """*target*, which the user named with *flag*, can be written, and what is there already is one of its kind.

    :param is_ours: whether a file that begins so may be replaced; *name* is what such a file is called.
    :raises WorktreeError: something else is there, or no file can be made there.
    """
    try:
        if target.is_dir():
            what = "there is a directory"
        elif target.exists() and not (target.is_file() and is_ours(_head(target))):
            what = f"there is something else than {name}"
        elif not target.parent.is_dir():
            what = f"there is no directory {target.parent}"
        elif not os.access(target.parent, os.W_OK | os.X_OK):
            what = f"nothing may be written in {target.parent}"
        else:
            return
    except OSError as error:
        what = f"nothing can be put there: {error.strerror}"
    raise WorktreeError(what, where=str(target), next=f"name another file with {flag}")


def _head(target: Path) -> bytes:
    with target.open("rb") as file:
        return file.read(_HEAD)
