"""The bases of an upstream's releases, brought when first asked for; and files of other releases, checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchset import sources
from patchset.errors import SourceError
from patchset.patch import Donor
from patchset.sources import BaseTree
from patchset.store import Store
from patchset.upstream import Upstream
from patchset.workspace import Workspace


@dataclass(frozen=True)
class Bases:
    """Releases of *upstream* → trees in *store*, always from the release's archive, by its hash.

    What recipes ask for (a checkout, a ref) is not looked at here: two releases are compared by what was published.
    """

    workspace: Workspace
    upstream: Upstream
    store: Store
    say: Callable[[str], None] = lambda text: None
    _known: dict[str, str] = field(default_factory=dict)

    def here(self) -> Mapping[str, str]:
        """Release → tree of those that are in the store already, in the order of releases. No network, one call of git."""
        archives = sources.known_archives(self.store)
        self._known.update(
            {
                version: archives[release.sha256]
                for version, release in self.upstream.releases.items()
                if release.sha256 in archives
            }
        )
        return {version: self._known[version] for version in self.upstream.releases if version in self._known}

    def tree(self, release: str) -> str:
        """The tree of *release*, from the store, the archive under ``vendor/`` or the package index.

        :raises DeclarationError: the release is not known.
        :raises SourceError: it cannot be had.
        """
        if release not in self._known and release not in self.here():
            self._known[release] = self._bring(release).tree
        return self._known[release]

    def archive(self, release: str) -> Path:
        """Where the archive of *release* lies once it was fetched."""
        return self.workspace.archives / sources.default_filename(sources.Pin(self.upstream.distribution, release))

    def commit(self, release: str) -> str:
        """The commit, without parents, of the tree of *release*."""
        return base_commit(self.store, self.upstream, release, self.tree(release))

    def donor_file(self, donor: Donor) -> bytes:
        """The bytes of a file of another release.

        :raises SourceError: it is not there, or not the one whose sha256 patch.toml names.
        """
        data = self.store.read(self.tree(donor.release), donor.path)
        if data is not None and hashlib.sha256(data).hexdigest() == donor.sha256:
            return data
        what = "is not there" if data is None else f"has sha256 {hashlib.sha256(data).hexdigest()}, not {donor.sha256}"
        raise SourceError(
            f"donor file {donor.path} of {donor.release} {what}", where=donor.path, next="check the donor in patch.toml"
        )

    def _bring(self, release: str) -> BaseTree:
        wanted = self.upstream.release(release)
        pin = sources.Pin(self.upstream.distribution, release, "archive", sha256=wanted.sha256, size=wanted.size)
        with self.workspace.scratch() as scratch:
            base = sources.resolve(pin, self.store, cache=self.workspace.archives, scratch=scratch)
        if base.note:
            self.say(f"  {release}: {base.note}")
        return base


def base_commit(store: Store, upstream: Upstream, release: str, tree: str) -> str:
    """The commit under which *tree* stands as the base of *release*: the same id on every machine."""
    return store.commit(tree, (), f"{upstream.name} {release}", upstream.release(release).date)
