"""Files against what the record claims of them: patched, generated, and all of the tree."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .bounded import Held
from .claims import Proof, Record, Touched
from .generated import MADE, check_version_file
from .model import Check, Finding, Kind, few
from .trees import EXECUTABLE, LINK, PLAIN, BadTree, Forest, blob_id, forest_of, split

#: More links than any release has; each is compared with every file.
_MOST_LINKS = 100
#: Tree entries hashed at most while an added file is searched: some seconds.
_MOST_WORK = 5_000_000
#: What hashing a directory costs beside its entries, in entries.
_EACH = 10


@dataclass(frozen=True)
class Content:
    """The files outside ``.dist-info`` as they are.

    ``held``: those that RECORD lists, by path. ``strangers``: those that it does not. ``bad``: paths that are missing,
    unreadable or not as RECORD says, and are told already. ``version_file``: see
    :func:`patchset.verify.generated.check_version_file`. ``again``: the command that makes it good.
    """

    held: Mapping[str, Held]
    strangers: Mapping[str, Held]
    bad: frozenset[str]
    version_file: bytes | None
    again: str

    def at(self, path: str) -> Held | None:
        """The file at *path*, listed or not."""
        return self.held.get(path) or self.strangers.get(path)


def check_content(record: Record, content: Content) -> tuple[Check, ...]:
    """The checks of patched files, generated files, the version file and the tree."""
    patched = check_patched(record, content)
    wrong = content.bad | {finding.path for finding in patched.findings}
    return (
        patched,
        check_generated(record, content),
        check_version_file(content.version_file, record.run.version, content.again),
        check_tree(record, content, frozenset(wrong)),
    )


# -- files that the series touched -------------------------------------------------------------------------------------


def check_patched(record: Record, content: Content) -> Check:
    """Each file that the series touched holds what the patches make of it, and not what was there before."""
    findings = [
        finding for path, touched in record.files.items() for finding in _patched(path, touched, record, content)
    ]
    findings += _series_faults(record, content)
    inside = sum(content.at(path) is not None for path in record.files)
    note = f"{inside} of {len(record.files)} that the series touched are in it" if record.files else "none"
    unknown = (
        "" if all(item.known for item in record.files.values()) else "the record is of format 1, without the base's"
    )
    return Check("patched files", note, few(findings), unknown)


def _patched(path: str, touched: Touched, record: Record, content: Content) -> Iterable[Finding]:
    found = content.at(path)
    names = _names(touched.patches)
    if touched.sha256 is None:
        if found:
            yield Finding(Kind.NOT_APPLIED, path, f"{names} removes it, and it is there", content.again)
    elif found is None:
        if path not in content.bad and _belongs(path, record.proof):
            yield Finding(Kind.MISSING, path, f"{names} is claimed, and the file is not there", content.again)
    elif found.blob == touched.base:
        yield Finding(Kind.NOT_APPLIED, path, f"{names} is claimed, and {path} is the base's", content.again)
    elif found.sha256 != touched.sha256 and path not in content.bad:
        yield Finding(Kind.PATCHED, path, f"it is not what {names} makes of it, nor the base's", content.again)


def _series_faults(record: Record, content: Content) -> Iterable[Finding]:
    touching: dict[str, list[str]] = {}
    for step in record.run.series:
        for path in step.touched if step.applied else ():
            touching.setdefault(path, []).append(step.patch)
    for path, patches in touching.items():
        if path not in record.files:
            what = f"{_names(patches)} is claimed to change it, and the record has no content for it"
            yield Finding(Kind.NOT_APPLIED, path, what, content.again)
    for path, touched in record.files.items():
        if list(touched.patches) != touching.get(path, []):
            what = f"the record's files say that {_names(touched.patches)} made it, its series {_names(touching.get(path, []))}"
            yield Finding(Kind.CHAIN, path, what, content.again)


def _belongs(path: str, proof: Proof | None) -> bool:
    """Must *path* be in the wheel? Not if it, or a directory above it, is what the wheel does not hold."""
    if proof is None:
        return path.startswith("vllm/")
    while path:
        directory, name = split(path)
        if name in proof.rest.get(directory, {}):
            return False
        path = directory
    return True


def _names(patches: Sequence[str]) -> str:
    return f"patch {' and '.join(patches)}" if patches else "no patch"


# -- files that the build makes ----------------------------------------------------------------------------------------


def check_generated(record: Record, content: Content) -> Check:
    """Files that the build made are what it made; none of them stands in for a file of the tree."""
    findings = []
    for path, sha256 in record.generated.items():
        found = content.at(path)
        if not MADE.fullmatch(path):
            what = "the record calls it generated, and no build of vLLM for XPU makes it"
            findings.append(Finding(Kind.UNCLAIMED, path, what, content.again))
        elif record.proof and not _belongs(path, record.proof):
            what = "the record calls it generated, and the tree has a file of that name"
            findings.append(Finding(Kind.TREE, path, what, content.again))
        elif path in content.bad:
            continue
        elif found is None:
            findings.append(Finding(Kind.MISSING, path, "the build made it, and it is not there", content.again))
        elif found.sha256 != sha256:
            findings.append(Finding(Kind.CHANGED, path, "it is not what the build made", content.again))
    return Check("generated files", f"{len(record.generated)} by sha256", few(findings))


# -- the tree ----------------------------------------------------------------------------------------------------------


def check_tree(record: Record, content: Content, wrong: frozenset[str]) -> Check:
    """The files and the record's proof make the id of the patched tree.

    :param wrong: paths that are told to be wrong already: with them no tree can come out.
    """
    what = "tree"
    if record.proof is None:
        missing = "the record is of format 1 and proves patched files only: the others stand on RECORD alone"
        finding = Finding(Kind.UNPROVED, "", missing, "make the wheel again with ./inv runtime")
        return Check(what, "", (finding,))
    try:
        sources = _sources(record, record.proof, content.held)
        if sources.forest.root != record.run.tree and content.strangers:
            # A file of the tree whose row in RECORD was lost is still the tree's.
            other = _sources(record, record.proof, {**content.held, **content.strangers})
            sources = other if other.forest.root == record.run.tree else sources
    except BadTree as error:
        return Check(what, findings=(Finding(Kind.TREE, "", f"the files make no tree: {error}", content.again),))
    stop = sorted(path for path in wrong if path and path not in record.generated)
    if sources.forest.root != record.run.tree and stop:
        return Check(what, not_run=f"{_some(stop)} told to be wrong, so its id cannot come out right")
    findings = [*_tree_faults(sources, record, content.again), *_link_faults(sources, record.proof, content)]
    return Check(what, f"{len(sources.files)} files make {sources.forest.root}", few(findings))


@dataclass(frozen=True)
class _Sources:
    """Files that stand for the tree's own (path → mode, blob), copies of links (path → the link's blob, theirs), the tree."""

    files: Mapping[str, tuple[str, str]]
    links: Mapping[str, tuple[str, str]]
    forest: Forest


def _sources(record: Record, proof: Proof, held: Mapping[str, Held]) -> _Sources:
    every = [path for path in held if path not in record.generated]
    spelled = {
        posixpath.join(place, name): oid
        for place, rest in proof.rest.items()
        for name, (mode, oid) in rest.items()
        if mode == LINK
    }
    links = {path: (spelled[path], held[path].blob) for path in every if path in spelled}
    if len(links) > _MOST_LINKS:
        raise BadTree(f"over {_MOST_LINKS} of them are links")
    files = {
        path: (EXECUTABLE if path in proof.executable else PLAIN, held[path].blob)
        for path in every
        if path not in links
    }
    return _Sources(files, links, forest_of(files, proof.rest))


def _tree_faults(sources: _Sources, record: Record, again: str) -> Iterable[Finding]:
    if sources.forest.root == record.run.tree:
        return
    added = _added(sources, record)
    if added:
        what = "RECORD lists it, and it is neither of the tree nor made by the build (without it, the tree comes out right)"
        yield Finding(Kind.UNCLAIMED, added, what, again)
        return
    what = (
        f"the files make the tree {sources.forest.root}, not {record.run.tree}: some are not the tree's, are missing or were "
        "added, and RECORD was made to fit; the files that the series touched are right"
    )
    yield Finding(Kind.TREE, "", what, again)


def _added(sources: _Sources, record: Record) -> str:
    """The file, or else the directory, without which the tree comes out right; '' if there is none or it is too much work."""
    forest = sources.forest
    kept = {above for place in (record.proof.rest if record.proof else {}) for above in _up(place)}
    candidates = [*sources.files, *(place for place in forest.levels if place and place not in kept)]
    if sum(len(forest.levels[above]) + _EACH for path in candidates for above in _up(split(path)[0])) > _MOST_WORK:
        return ""
    return next((path for path in candidates if forest.root_without(path) == record.run.tree), "")


def _up(place: str) -> Iterable[str]:
    """*place* and every directory above it, the root last."""
    while place:
        yield place
        place = split(place)[0]
    yield ""


def _link_faults(sources: _Sources, proof: Proof, content: Content) -> Iterable[Finding]:
    """A link of the tree is a copy of its target in the wheel; its blob is the target's spelling."""
    known = {path: oid for path, (_, oid) in sources.files.items()}
    for place, entries in proof.rest.items():
        plain = {name: oid for name, (mode, oid) in entries.items() if mode in (PLAIN, EXECUTABLE)}
        known.update({posixpath.join(place, name): oid for name, oid in plain.items()})
    for path, (oid, blob) in sources.links.items():
        folder = split(path)[0] or "."
        target = next((one for one in known if blob_id(posixpath.relpath(one, folder).encode()) == oid), None)
        if target is None:
            what = "in the tree it is a link to something that the wheel does not hold, so its content proves nothing"
            yield Finding(Kind.UNPROVED, path, what, content.again)
        elif blob != known[target] and path not in content.bad:
            what = f"in the tree it is a link to {target}, and its content is another"
            yield Finding(Kind.TREE, path, what, content.again)


def _some(paths: Sequence[str]) -> str:
    return f"{paths[0]} is" if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more are"
