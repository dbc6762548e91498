"""A base tree from a git repository: anywhere git can fetch from, a local mirror, or a bundle."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchset.errors import DeclarationError, SourceError, StoreError
from patchset.sources.redact import hide

if TYPE_CHECKING:
    from patchset.store import Store

_SCHEMES = ("https", "http", "ssh", "git", "file")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)\Z", re.DOTALL)
_SCP = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:)[^-].*\Z")
_HOST = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?\Z")
_REF = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}(?<![./])\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")


@dataclass(frozen=True)
class Checkout:
    """One commit in the store, with all its files: its id, its tree, and the URL it came from (no credentials)."""

    commit: str
    tree: str
    url: str


def check_git_url(url: str) -> str:
    """*url* as git may see it; a local path is made absolute.

    git runs programs for some URLs (``ext::``, ``fd::``) and takes some for options (a leading ``-``), so only what is
    known to be harmless gets through: https, http, ssh, git, file, ``host:path``, and local repositories and bundles.

    :raises DeclarationError: it is something else.
    :raises SourceError: it is a path, and nothing is there.
    """

    def refused(why: str) -> DeclarationError:
        return DeclarationError(
            f"the git URL {hide(url)!r} {why}",
            next="give an https://, ssh://, git:// or file:// URL, host:path, or a local repository",
        )

    if not url or url != url.strip() or any(ord(character) < 32 or ord(character) == 127 for character in url):
        raise refused("is empty, or has control characters or blanks around it")
    if url.startswith("-"):
        raise refused("begins with a dash")
    if os.path.exists(url):
        return os.path.abspath(url)
    if re.match(r"[A-Za-z0-9+.-]*::", url):
        raise refused("names a transport helper, which may run programs")
    match = _URL.match(url)
    if match:
        scheme, rest = match["scheme"].lower(), match["rest"]
        if scheme not in _SCHEMES:
            raise refused(f"has the scheme {scheme!r}")
        if scheme == "file":
            # A plain path: git knows bundles only by path.
            return _existing(rest)
        host, _, path = rest.partition("/")
        user, _, address = host.rpartition("@")
        if user.startswith("-") or not _HOST.match(address) or not path or path.startswith("-"):
            raise refused("has no proper host and path")
        return url
    if os.path.isabs(url):
        return _existing(url)
    if _SCP.match(url):
        return url
    raise refused("is no URL and nothing on this machine")


def _existing(path: str) -> str:
    if not os.path.exists(path):
        raise SourceError(
            f"there is no git repository or bundle at {path}", next='mount or copy it there, or take source = "archive"'
        )
    return os.path.abspath(path)


def check_ref(ref: str) -> str:
    """*ref* if it can be the name of a tag or branch.

    :raises DeclarationError: it cannot.
    """
    if not _REF.match(ref):
        raise DeclarationError(f"{ref!r} cannot be a tag or branch", next="give one like v0.23.0, or HEAD")
    return ref


def check_commit(commit: str) -> str:
    """*commit* if it is a whole commit id.

    :raises DeclarationError: it is not.
    """
    if not _COMMIT.match(commit):
        raise DeclarationError(f"{commit!r} is no commit id", next="give all 40 digits: git rev-parse v0.23.0^{commit}")
    return commit


def commit_here(store: Store, commit: str) -> Checkout | None:
    """The commit, if it is in the store with everything below it; nothing is fetched to find out."""
    check_commit(commit)
    if not store.has_object(commit):
        return None
    tree = store.tree_of(commit)
    return Checkout(commit, tree, "") if store.has_tree(tree) else None


def check_out(store: Store, url: str, ref: str | None, commit: str | None) -> Checkout:
    """Bring one commit into *store*, with all its files: the base must stand when the network is gone.

    :param ref: what to take where *commit* is None; else where to find it, on a host that gives no bare commit ids.
    :raises DeclarationError: URL, ref or commit are not what they must be.
    :raises SourceError: git cannot bring it, or the ref is another commit by now.
    """
    address = check_git_url(url)
    if ref:
        check_ref(ref)
    shown = hide(address)
    if commit:
        here = commit_here(store, commit)
        if here:
            return Checkout(here.commit, here.tree, shown)
    elif not ref:
        raise DeclarationError("a checkout needs a tag, a branch or a commit", where=shown, next='add ref = "v0.23.0"')
    try:
        got = _fetch(store, address, ref, commit)
        tree = store.tree_of(got)
        store.complete(tree)
    except StoreError as error:
        raise SourceError(
            f"git cannot bring {commit or ref}: {hide(error.what)}",
            where=shown,
            detail=hide(error.detail),
            next='check the URL and the network, or take source = "archive"',
        ) from error
    except SourceError as error:
        raise SourceError(hide(error.what), where=shown, next=error.next, detail=hide(error.detail)) from error
    return Checkout(got, tree, shown)


def _fetch(store: Store, address: str, ref: str | None, commit: str | None) -> str:
    if not commit:
        return store.fetch_commit(address, store.resolve_remote(address, str(ref)))
    try:
        return store.fetch_commit(address, commit)
    except (SourceError, StoreError):
        # Some hosts give only what a ref names.
        if not ref or store.resolve_remote(address, ref) != commit:
            raise
        return store.fetch_commit(address, ref)
