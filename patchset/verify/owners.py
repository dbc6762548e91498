"""Files that two installed distributions claim, and whose content lies there. The known case is ``triton/``.

`triton` and `triton-xpu` both install the folder ``triton``; whichever came last has written over the other, and removing
one takes files of the other away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .bounded import Unread, held
from .identity import NAME
from .model import Check, Finding, Kind, few
from .records import spell_hash
from .site import Distribution, is_bytecode

#: The folder whose files are compared with its owner's RECORD even if there is only one owner: vLLM's kernels need it.
WATCHED = "triton"

_MOST_ROWS = 5_000_000
_NOBODY = "none of them"


@dataclass(frozen=True)
class _Shared:
    """A file with these owners: the digest that each one's RECORD gives."""

    path: str
    digests: Mapping[str, str]


def check_owners(site: Path, every: Sequence[Distribution]) -> Check:
    """Each file has one owner, or all its owners put the same there; and ``triton/`` is as its owner installed it."""
    if sum(len(one.rows) for one in every) > _MOST_ROWS:
        return Check("owners", not_run=f"the RECORDs have over {_MOST_ROWS} rows")
    shared = _shared(every)
    differing = [one for one in shared if len(set(one.digests.values())) > 1]
    groups: dict[tuple[tuple[str, ...], str], list[_Shared]] = {}
    for one in differing:
        groups.setdefault((tuple(sorted(one.digests)), _top(one.path)), []).append(one)
    findings = [_group_finding(site, owners, top, files) for (owners, top), files in sorted(groups.items())]
    findings += _watched(site, every)
    unread = [one.label for one in every if one.unread or one.faults]
    note = f"{len(every)} distributions" + (
        f"; {len(shared) - len(differing)} shared files are the same in all" if shared else ""
    )
    return Check(
        "owners",
        note,
        few(findings),
        f"RECORD could not be read, or not wholly, of {', '.join(unread[:10])}" if unread else "",
    )


def check_foreign(every: Sequence[Distribution]) -> Check:
    """No other distribution than vllm owns a file below ``vllm/``, where Python would import it as vllm's."""
    findings = []
    for one in every:
        paths = [path for path in one.rows if _top(path) == NAME] if one.name != NAME else []
        if paths:
            more = f" and {len(paths) - 1} more below vllm/" if len(paths) > 1 else ""
            what = f"{one.label} ({one.folder}) owns it{more}, and no distribution but vllm has files there"
            findings.append(
                Finding(
                    Kind.OWNERS, paths[0], what, f"python -m pip uninstall {one.name}, then install the wheel again"
                )
            )
    return Check("owners of vllm/", "vllm alone", few(findings))


def _shared(every: Sequence[Distribution]) -> list[_Shared]:
    owners: dict[str, dict[str, str]] = {}
    for one in every:
        for path, row in one.rows.items():
            if not is_bytecode(path):
                owners.setdefault(path, {})[f"{one.label} ({one.folder})"] = row.digest
    return [_Shared(path, digests) for path, digests in owners.items() if len(digests) > 1]


def _group_finding(site: Path, owners: tuple[str, ...], top: str, files: Sequence[_Shared]) -> Finding:
    counts = dict.fromkeys([*owners, _NOBODY], 0)
    for one in files:
        counts[_whose(site, one)] += 1
    lying = ", ".join(
        f"{count} {'are of' if name != _NOBODY else 'of'} {name}" for name, count in counts.items() if count
    )
    what = f"{len(files)} files are claimed by {' and '.join(owners)}, with different content; on the disk {lying}"
    path = files[0].path if len(files) == 1 else f"{top}/"
    names = " ".join(sorted({owner.split(" ")[0] for owner in owners}))
    return Finding(
        Kind.OWNERS, path, what, f"python -m pip uninstall {names}, then install only the one that the stack names"
    )


def _whose(site: Path, one: _Shared) -> str:
    try:
        digest = spell_hash(bytes.fromhex(held(site / one.path).sha256))
    except Unread:
        return _NOBODY
    return next((owner for owner, claimed in one.digests.items() if claimed == digest), _NOBODY)


def _watched(site: Path, every: Sequence[Distribution]) -> Iterable[Finding]:
    owners = [(one, rows) for one in every if (rows := _rows(one))]
    if len(owners) != 1:
        return
    one, rows = owners[0]
    again = f"python -m pip install --force-reinstall --no-deps {one.name}=={one.version}"
    for path, digest in rows.items():
        try:
            found = spell_hash(bytes.fromhex(held(site / path).sha256))
        except Unread as error:
            yield Finding(Kind.MISSING, path, f"{one.label} lists it, and it cannot be read: {error}", again)
            continue
        if digest.startswith("sha256=") and digest != found:
            yield Finding(Kind.CHANGED, path, f"it is not the file of {one.label}, its only owner", again)


def _rows(one: Distribution) -> dict[str, str]:
    return {path: row.digest for path, row in one.rows.items() if _top(path) == WATCHED and not is_bytecode(path)}


def _top(path: str) -> str:
    return path.partition("/")[0]
