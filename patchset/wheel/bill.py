"""What a wheel was made of, for those who ask later: the base, each patch with its diff, donor files, and what must run beside it.

The bill of materials (:mod:`patchset.wheel.sbom`) and the provenance (:mod:`patchset.wheel.provenance`) are written from it. It
holds no reason that a probe gave: those name versions of the laboratory, and a wheel's bytes must not.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packageurl import PackageURL
from packaging.version import Version

from patchset import sources
from patchset.patch import Donor, Patch, Reference
from patchset.upstream import Upstream

if TYPE_CHECKING:  # these import patchset.wheel
    from patchset.proof import Exposure, Proof
    from patchset.resolve import Project, Resolved
    from patchset.store import Store

#: What this project is called where a name must be unique without a host: in property names and package URLs.
NAMESPACE = "vllm-xpu-patchset"

#: The media type of a unified diff.
DIFF_TYPE = "text/x-diff"

_AS_IT_IS = "surrogateescape"


@dataclass(frozen=True)
class Related:
    """An issue or pull request that a patch resolves on this base."""

    url: str
    what: str


@dataclass(frozen=True)
class Donated:
    """A file taken from another release's ``archive``, to which ``archive_sha256`` belongs; ``sha256`` is the file's there.

    ``result`` is its sha256 in the patched tree: another one, if a diff changes it further.
    """

    release: str
    archive: str
    archive_sha256: str
    path: str
    sha256: str
    to: str
    result: str


@dataclass(frozen=True)
class PatchEntry:
    """One patch of the series. ``type`` is CycloneDX's.

    ``evidence`` are the lines that say why it is not applied; of an applied one there are none here. ``diff`` is empty where
    there is none; bytes in it that are not UTF-8 are surrogates.
    """

    id: str
    title: str
    type: str
    kind: str
    outcome: str
    applied: bool
    decision: str
    evidence: tuple[str, ...]
    diff: str
    donors: tuple[Donated, ...]
    resolves: tuple[Related, ...]
    tree: str
    commit: str

    @property
    def diff_bytes(self) -> bytes:
        """The diff as it lies in its file."""
        return self.diff.encode("utf-8", _AS_IT_IS)


@dataclass(frozen=True)
class OmittedEntry:
    """A patch that the recipe leaves out by name; ``probe`` is its probe's verdict on the tree without it."""

    id: str
    title: str
    reason: str
    probe: str


@dataclass(frozen=True)
class Bill:
    """All that the document says but the native members, which only the build knows. JSON-able by ``asdict``.

    ``archive`` and ``sha256``: the base's source archive. ``epoch``: SOURCE_DATE_EPOCH. ``stack``: distribution → specifier.
    """

    version: str
    recipe: str
    distribution: str
    release: str
    archive: str
    sha256: str
    base_tree: str
    base_commit: str
    tree: str
    commit: str
    epoch: int
    stack: Mapping[str, str]
    patches: tuple[PatchEntry, ...]
    omitted: tuple[OmittedEntry, ...]


def bill_of(
    project: Project, resolved: Resolved, proofs: Sequence[Proof], omitted: Sequence[Exposure], store: Store
) -> Bill:
    """The bill of the runtime that *resolved* is, as its *proofs* and what was *omitted* say.

    :param store: has the patched tree.
    :raises OSError: a diff cannot be read.
    """
    pin, release = resolved.lock.pin, resolved.release.version
    upstream = project.upstreams[pin.upstream]
    entries = []
    for proof in proofs:
        step, patch = proof.step, project.patches[proof.step.patch]
        variant = patch.variant_for(release)
        applied = step.outcome.changes_tree
        entries.append(
            PatchEntry(
                id=patch.id,
                title=patch.title,
                type=patch_type(patch, release, upstream.repository),
                kind=patch.kind,
                outcome=step.outcome.value,
                applied=applied,
                decision=proof.decision.text,
                evidence=() if applied else step.evidence,
                diff=variant.diff.read_bytes().decode("utf-8", _AS_IT_IS) if applied and variant.diff else "",
                donors=tuple(
                    _donated(donor, upstream, store, resolved.applied.tree) for donor in variant.donors if applied
                ),
                resolves=tuple(Related(item.ref, item.what) for item in missing_references(patch, release)),
                tree=step.tree,
                commit=step.commit,
            )
        )
    return Bill(
        version=resolved.version,
        recipe=resolved.recipe.name,
        distribution=upstream.distribution,
        release=release,
        archive=pin.archive,
        sha256=pin.sha256,
        base_tree=pin.tree,
        base_commit=pin.base_commit,
        tree=resolved.applied.tree,
        commit=resolved.applied.commit,
        epoch=int(resolved.release.date.timestamp()),
        stack=dict(resolved.recipe.stack),
        patches=tuple(entries),
        omitted=tuple(
            OmittedEntry(item.patch, project.patches[item.patch].title, item.reason, item.finding.verdict.value)
            for item in omitted
        ),
    )


def patch_type(patch: Patch, release: str, repository: str) -> str:
    """CycloneDX's type of *patch* on *release*: ``backport`` for what a later release of the same upstream has, else ``unofficial``.

    What was fixed in another project than that of *repository* is none: here it is worked around. ``cherry-pick`` (commits
    taken as they are) and ``monkey`` (changed while it runs) are never what a patch here is.
    """
    own = repository.removesuffix("/").removesuffix(".git") + "/"
    later = any(item.first_release and item.ref.startswith(own) for item in missing_references(patch, release))
    return "backport" if patch.kind == "backport" or (patch.kind == "fix" and later) else "unofficial"


def missing_references(patch: Patch, release: str) -> tuple[Reference, ...]:
    """The references of *patch* without those that *release* has already: on this base it does not resolve them."""
    return tuple(
        item
        for item in patch.references
        if item.first_release is None or Version(item.first_release) > Version(release)
    )


def _donated(donor: Donor, upstream: Upstream, store: Store, tree: str) -> Donated:
    return Donated(
        donor.release,
        sources.default_filename(sources.Pin(upstream.distribution, donor.release)),
        upstream.release(donor.release).sha256,
        donor.path,
        donor.sha256,
        donor.to,
        hashlib.sha256(store.read(tree, donor.to) or b"").hexdigest(),
    )


def content_name(data: bytes) -> str:
    """The name of *data*: an RFC 6920 address with their sha256, which needs no host to be checked."""
    digest = hashlib.sha256(data).digest()
    return f"ni:///sha-256;{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def purl(name: str, version: str | None, *, archive: str = "") -> PackageURL:
    """The package URL of a distribution on a Python package index, or of one *archive* of it."""
    return PackageURL("pypi", None, name, version, {"file_name": archive} if archive else None)
