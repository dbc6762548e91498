"""What the headers of one file's diff say together: which change, of which path, from which mode to which. Pure.

git takes the last of two headers that contradict each other, ignores one it cannot read, and ends a name at a control character.
All that is refused here: a header that git itself never writes has no one meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchset.diff_model import FileDiff, Hunk
from patchset.diff_rules import MODES, Refuse, check_link, check_path, same_names, show, unquote

#: The extended headers as git writes them; the value of each, where it has a form.
HEADERS: Mapping[str, re.Pattern[bytes]] = {
    "old mode": re.compile(rb".*"),
    "new mode": re.compile(rb".*"),
    "deleted file mode": re.compile(rb".*"),
    "new file mode": re.compile(rb".*"),
    "copy from": re.compile(rb".+", re.DOTALL),
    "copy to": re.compile(rb".+", re.DOTALL),
    "rename from": re.compile(rb".+", re.DOTALL),
    "rename to": re.compile(rb".+", re.DOTALL),
    "similarity index": re.compile(rb"(?:\d\d?|100)%"),
    "dissimilarity index": re.compile(rb"(?:\d\d?|100)%"),
    "index": re.compile(rb"([0-9a-f]{7,40}|[0-9a-f]{64})\.\.([0-9a-f]{7,40}|[0-9a-f]{64})(?: (\d{6}))?"),
}

#: How a change is told from its headers, the first that matches; each stands with the pair it must come with.
_CHANGES = (
    ("add", "new file mode", None),
    ("delete", "deleted file mode", None),
    ("rename", "rename from", "rename to"),
    ("copy", "copy from", "copy to"),
)
#: What a new or deleted file has besides: its content's ids. Everything else may also change its mode.
_ONLY_INDEX = frozenset({"index", "similarity index", "dissimilarity index"})


@dataclass(frozen=True)
class Headers:
    """The header lines of one file's diff: behind `diff --git `, the extended ones by name, and behind `--- ` and `+++ `."""

    git: bytes
    said: Mapping[str, bytes]
    old_line: bytes | None
    new_line: bytes | None
    line: int


def assemble(headers: Headers, hunks: tuple[Hunk, ...], binary: bool, refuse: Refuse) -> FileDiff:
    """One file's diff from its *headers* and *hunks*; *refuse* makes the error for a rule, at the file's first line.

    :raises DiffRefused: they do not say one thing.
    """
    change = _change(headers.said, bool(hunks) or binary, refuse)
    old, new = _names(headers, change, refuse)
    if hunks and headers.old_line is None:
        raise refuse("hunks without `---` and `+++`")
    if headers.old_line is not None and not hunks:
        raise refuse("`---` and `+++` without a hunk")
    for path in {old, new}:
        check_path(path, refuse)
    if (change == "add" and any(hunk.old for hunk in hunks)) or (
        change == "delete" and any(hunk.new for hunk in hunks)
    ):
        raise refuse("a new file that has old lines, or a deleted one that has new lines")
    modes = {key: value.decode("ascii", "replace") for key, value in headers.said.items() if key.endswith("mode")}
    plain, blob = _index(headers.said, modes, refuse)
    if binary and not re.match(rb"[0-9a-f]{40}\.\.[0-9a-f]{40}(?: |\Z)", headers.said.get("index", b"")):
        raise refuse(
            "a binary patch without the whole ids of both sides, which git needs", "make the diff again with --binary"
        )
    if "120000" in (*modes.values(), plain):
        if binary:
            raise refuse("a link's target as a binary patch")
        targets = [b"".join(hunk.new) for hunk in hunks] or ([b""] if change == "add" else [])
        check_link(old, (), refuse)
        check_link(new, targets if change != "delete" else (), refuse)
    return FileDiff(
        change,
        None if change == "add" else old,
        None if change == "delete" else new,
        modes.get("old mode") or modes.get("deleted file mode") or plain,
        modes.get("new mode") or modes.get("new file mode") or plain,
        blob,
        hunks,
        binary,
        headers.line,
    )


def check_together(files: Sequence[FileDiff], refuse: Refuse) -> None:
    """The files of one diff must not depend on the order in which they are done; *refuse* takes a ``line`` (from 0).

    git takes what is renamed or copied from the tree as it was, removes before it writes, and so puts back a file that
    one part of a diff changes and another deletes. A second change of the same file is done on top of the first.

    :raises DiffRefused: one is behind a link or file that another leaves, or has what another removes.
    """
    left = {file.new_path: file.new_mode == "120000" for file in files if file.new_path}
    for file in files:
        for found in re.finditer(b"/", file.new_path or b""):
            parent = file.path[: found.start()]
            if parent in left:
                raise refuse(
                    f"{show(file.path)} lies behind {'a link' if left[parent] else 'a file'} that this diff leaves there",
                    line=file.line - 1,
                )
    mentions: dict[bytes, list[tuple[str, int]]] = {}
    for file in files:
        for path, role in _roles(file):
            mentions.setdefault(path, []).append((role, file.line))
    for path, found in mentions.items():
        first, *others = (role for role, _ in found)
        # A file that becomes a link, or the reverse, is written as one that goes and one that comes.
        if (
            others
            and [first, *others] != ["delete", "make"]
            and (first not in ("make", "change") or set(others) != {"change"})
        ):
            raise refuse(
                f"{show(path)} comes or goes, and another part of the diff names it too: the order would decide",
                line=found[1][1] - 1,
                next="make one diff of the two trees: git diff --full-index --no-renames",
            )


def _roles(file: FileDiff) -> Iterator[tuple[bytes, str]]:
    """Each path that *file* puts into another state, and how. (What is copied stays as it is.)"""
    if file.old_path is not None and file.change in ("delete", "rename"):
        yield file.old_path, file.change
    if file.new_path is not None:
        yield file.new_path, "change" if file.change in ("modify", "mode") else "make"


def _change(said: Mapping[str, bytes], has_content: bool, refuse: Refuse) -> str:
    found = [(change, key, pair) for change, key, pair in _CHANGES if key in said or pair in said]
    if len(found) > 1:
        raise refuse(f"{' and '.join(change for change, _, _ in found)} at once")
    if bool("old mode" in said) != bool("new mode" in said):
        raise refuse("an old mode without a new one, or a new one without an old one, says nothing")
    if not found:
        if not has_content and "old mode" not in said:
            raise refuse("a file's diff that says nothing: no hunk, no mode, no rename")
        return "modify" if has_content else "mode"
    change, key, pair = found[0]
    if pair is None and not said.keys() <= {key, *_ONLY_INDEX}:
        raise refuse(f"{key} beside another mode: which of them counts would be a guess")
    if pair is not None and not {key, pair} <= said.keys():
        raise refuse(f"{change} from without {change} to, or the reverse")
    return change


def _index(said: Mapping[str, bytes], modes: Mapping[str, str], refuse: Refuse) -> tuple[str | None, str | None]:
    """(the mode of the index line, the old side's whole blob id), None where not said."""
    for key, mode in modes.items():
        if mode not in MODES:
            raise refuse(f"{key} {mode}: only {', '.join(MODES)} are files of a tree")
    match = HEADERS["index"].fullmatch(said["index"]) if "index" in said else None
    if not match:
        return None, None
    plain = match[3].decode() if match[3] else None
    if plain is not None and plain not in MODES:
        raise refuse(f"mode {plain}: only {', '.join(MODES)} are files of a tree (160000 is a submodule)")
    if plain is not None and modes:
        raise refuse("a mode in the index line beside another mode: which of them counts would be a guess")
    whole = len(match[1]) == 40 and set(match[1]) != {ord("0")}
    return plain, match[1].decode() if whole else None


def _names(headers: Headers, change: str, refuse: Refuse) -> tuple[bytes, bytes]:
    """Old and new path, which all of the header lines must agree on."""
    if change in ("rename", "copy"):
        old = unquote(headers.said[f"{change} from"], refuse)
        new = unquote(headers.said[f"{change} to"], refuse)
        if not same_names(headers.git, old, new, refuse):
            raise refuse("the names of `diff --git` and of the rename or copy disagree")
    else:
        old = new = _one_name(headers.git, refuse)
    for line, prefix, path, gone in (
        (headers.old_line, b"a/", old, change == "add"),
        (headers.new_line, b"b/", new, change == "delete"),
    ):
        if line is not None:
            _check_name(line, prefix, path, gone, refuse)
    return old, new


def _one_name(header: bytes, refuse: Refuse) -> bytes:
    """The one path of a file that is not renamed: `diff --git a/X b/X`, where X may hold spaces and ` b/`."""
    if header.startswith(b'"'):
        match = re.match(rb'("(?:[^"\\]|\\.)*") (.+)\Z', header, re.DOTALL)
        halves = (match.group(1), match.group(2)) if match else (b"", b"")
    else:
        middle = len(header) // 2
        halves = (header[:middle], header[middle + 1 :]) if header[middle : middle + 1] == b" " else (b"", b"")
    old, new = unquote(halves[0], refuse), unquote(halves[1], refuse)
    if old.startswith(b"a/") and new.startswith(b"b/") and old[2:] == new[2:]:
        return old[2:]
    if old and old == new:
        raise refuse(
            "names without the prefixes a/ and b/: how much to strip would be a guess",
            "make the diff again with --src-prefix=a/ --dst-prefix=b/ (diff.noprefix is set)",
        )
    if re.match(rb'"?[ciwo12]/', header) and re.search(rb' "?[ciwo12]/', header):
        raise refuse(
            "mnemonic prefixes (i/ w/ c/ o/ 1/ 2/)",
            "make the diff again with --src-prefix=a/ --dst-prefix=b/ (diff.mnemonicPrefix is set)",
        )
    raise refuse("the two names of `diff --git` disagree, and it is no rename or copy")


def _check_name(line: bytes, prefix: bytes, path: bytes, gone: bool, refuse: Refuse) -> None:
    # git ends a name that holds a space with a tab, so that a date behind it could be told from it
    name = unquote(line[:-1] if line.endswith(b"\t") else line, refuse)
    if gone:
        if line != b"/dev/null":
            raise refuse("a file that is new or deleted, and whose missing side is not /dev/null")
    elif name != prefix + path:
        raise refuse(f"`---`/`+++` name {show(name)}, `diff --git` names {show(path)}")
