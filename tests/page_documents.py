"""Forecast documents made by hand: one in which everything that may stand in a cell does, and one that is hostile."""

from __future__ import annotations

from copy import deepcopy
from hashlib import sha1
from typing import Any

RELEASES = (
    ("0.21.0", "2026-05-14"),
    ("0.22.0", "2026-05-29"),
    ("0.23.0", "2026-06-13"),
    ("0.24.0", "2026-06-30"),
    ("0.25.0", "2026-07-11"),
    ("0.26.0", "2026-07-25"),
    ("0.31.0", "2026-10-04"),
    ("0.33.0", "2026-11-02"),
)
ASK = "no verdict is kept for this probe on this tree"

#: Patch → release → (outcome, state, agree, covered): all outcomes, all states, all three of agree.
WHAT: dict[str, dict[str, tuple[str, str | None, bool | None, bool]]] = {
    "pointer-tables": {
        "0.21.0": ("applies", "needed", True, True),
        "0.22.0": ("applies", "needed", True, True),
        "0.23.0": ("applies", "needed", None, True),
        "0.24.0": ("merges", "needed", True, True),
        "0.25.0": ("partial", "needed", True, True),
        "0.26.0": ("ambiguous", "unknown", False, True),
        "0.31.0": ("upstream", "fixed", True, True),
        "0.33.0": ("upstream", "fixed", True, True),
    },
    "zero-counts": {
        "0.21.0": ("absent", "absent", True, True),
        "0.22.0": ("absent", None, None, True),
        "0.23.0": ("applies", "needed", True, True),
        "0.24.0": ("applies", None, None, False),
        "0.25.0": ("conflicts", "needed", True, False),
        "0.26.0": ("conflicts", None, None, False),
        "0.31.0": ("conflicts", "fixed", True, False),
        "0.33.0": ("refused", None, None, True),
    },
    "short-groups": {
        "0.21.0": ("absent", "absent", True, False),
        "0.22.0": ("applies", "needed", True, True),
        "0.23.0": ("merges", None, None, True),
        "0.24.0": ("applies", "fixed", False, True),
        "0.25.0": ("upstream", "needed", False, True),
        "0.26.0": ("upstream", None, None, True),
        "0.31.0": ("upstream", "fixed", True, True),
        "0.33.0": ("upstream", "fixed", True, True),
    },
}
_VERDICTS = {"needed": "defect", "fixed": "sound", "absent": "absent", "unknown": "unknown"}
_STOPS = ("partial", "ambiguous", "conflicts", "refused")
_CHANGES = ("applies", "merges")

PATCHES = [
    {
        "id": "pointer-tables",
        "title": "Store addresses with the top bit set without overflow",
        "why": "Addresses have the top bit set, for example `0xffffd556b6400000`.\nA signed table dies on them:\n\n"
        "    OverflowError: Python int too large to convert to C long\n    EngineDeadError\n\nSo:\n"
        "* the buffers become unsigned;\n* and nothing else\n  changes.\n\n1a  in the first place\n1b  in the second",
        "drop_when": "no supported pin is older than 0.31.0.",
        "kind": "fix",
        "references": [
            {
                "ref": "https://github.com/vllm-project/vllm/pull/44665",
                "what": "buffers as `uint64`",
                "state": "merged",
                "first_release": "0.31.0",
            },
            {
                "ref": "https://example.org/reports/41817",
                "what": "the report of it",
                "state": "closed",
                "first_release": None,
            },
        ],
    },
    {
        "id": "zero-counts",
        "title": "Report a count of zero instead of hiding it",
        "why": "A count of zero looks like no count at all.",
        "drop_when": "The oldest pin in use is 0.31.0 or later.",
        "kind": "backport",
        "references": [
            {
                "ref": "https://github.com/vllm-project/vllm/issues/54740",
                "what": "the same, open",
                "state": "open",
                "first_release": None,
            }
        ],
    },
    {
        "id": "short-groups",
        "title": "Pad short groups for the operator",
        "why": "The operator refuses a short group.",
        "drop_when": "The pinned kernels take them.",
        "kind": "workaround",
        "references": [],
    },
]


def tree_id(*words: str) -> str:
    """An id that looks like a tree's."""
    return sha1("/".join(words).encode()).hexdigest()


def document() -> dict[str, Any]:
    """A forecast with every outcome, state and agreement, a moved file, conflicts, a stack that changes, and gaps."""
    cells = [_cell(patch["id"], release, *WHAT[patch["id"]][release]) for release, _ in RELEASES for patch in PATCHES]
    agree = [cell["agree"] for cell in cells]
    return {
        "format": 1,
        "upstream": "vllm",
        "recipe": "b70-0.23",
        "made": "2026-12-01T03:00:00Z",
        "seconds": {"text": 0.9, "probes": 12.5},
        "patches": deepcopy(PATCHES),
        "releases": [
            {
                "release": release,
                "date": date,
                "tree": tree_id(release),
                "stack": {"torch": f"==2.{11 + at}.0+xpu", "vllm-xpu-kernels": "==0.1.9"},
                "changes": _changes(at),
            }
            for at, (release, date) in enumerate(RELEASES)
        ],
        "unavailable": [
            {
                "release": "0.34.0",
                "why": "vllm 0.34.0: the index has no such file",
                "next": "./inv forecast --releases 0.34.0",
            }
        ],
        "cells": deepcopy(cells),
        "summary": {
            "cells": len(cells),
            "agree": agree.count(True),
            "disagree": agree.count(False),
            "not_run": agree.count(None),
            "stops": sum(cell["outcome"] in _STOPS for cell in cells),
        },
    }


def _changes(at: int) -> list[dict[str, str]]:
    torch = {"name": "torch", "from": f"==2.{10 + at}.0+xpu", "to": f"==2.{11 + at}.0+xpu", "meaning": ""}
    if at == 6:
        return [{**torch, "meaning": "the pointer rule flips (pytorch#191458)"}]
    if at == 4:
        return [
            torch,
            {"name": "triton-xpu", "from": "==3.7.2", "to": "", "meaning": "another distribution has it now"},
        ]
    return [torch] if at in (1, 3) else []


def _cell(patch: str, release: str, outcome: str, state: str | None, agree: bool | None, covered: bool) -> dict:
    base = _finding(patch, release, _VERDICTS[state]) if state else None
    half = outcome in _CHANGES and state == "needed" and agree is None
    patched = _finding(patch, release + "+series", "sound") if outcome in _CHANGES and base and not half else None
    return {
        "patch": patch,
        "release": release,
        "variant": ">=0.21.0,<=0.23.0" if not covered else f"=={release}",
        "covered": covered,
        "outcome": outcome,
        "evidence": _EVIDENCE[outcome],
        "tree": tree_id(patch, release, "after"),
        "hunks": _hunks(outcome),
        "conflicts": _CONFLICTS if outcome == "conflicts" else [],
        "moved": _MOVED if outcome == "conflicts" else [],
        "first_broken": "0.25.0" if outcome == "conflicts" else None,
        "probe": {"base": base, "patched": patched, "not_run": ASK if agree is None else ""},
        "state": state,
        "agree": agree,
        "so": f"{outcome} with state {state}: {'proved' if agree else 'denied' if agree is False else 'not probed'}",
    }


def _finding(patch: str, where: str, verdict: str) -> dict[str, Any]:
    return {
        "patch": patch,
        "tree": tree_id(where),
        "verdict": verdict,
        "reason": f"{patch} is {verdict} on {where}: worker/tables.py:128: OverflowError",
        "checks": [
            {"name": "first place", "verdict": verdict, "reason": f"worker/tables.py:128 {verdict}"},
            {"name": "second place", "verdict": verdict, "reason": f"worker/tables.py:310 {verdict}"},
        ],
        "cached": where.endswith("0"),
    }


_EVIDENCE = {
    "applies": ["worker/tables.py, hunk 2 (line 86): offset +56"],
    "merges": ["worker/tables.py, hunk 2 (line 86): its old lines are not there"],
    "upstream": ["Pull request 44665, first in 0.31.0.", 'worker/tables.py:220: table = "unsigned"'],
    "absent": ["no `tables` in worker/tables.py"],
    "partial": ["worker/tables.py, hunk 1 (line 19): in at line 21", "worker/tables.py, hunk 2 (line 86): not in"],
    "ambiguous": ["worker/tables.py, hunk 1 (line 19) fits at lines 19, 310"],
    "conflicts": ["three-way merge: worker/tables.py conflicts", "the file serve/old.py is not there"],
    "refused": ["zero-counts/0.33.patch:7: the path leaves the tree\n  next: make the diff again"],
}

_BEFORE = [f"    step_{number}()" for number in range(12)]
_CONFLICTS = [
    {
        "path": "worker/tables.py",
        "line": 472,
        "base": ["def create(self):", *_BEFORE, "    self.table = signed(64)", "    return self.table"],
        "ours": ["def create(self, size):", *_BEFORE, "    self.table = signed(size)", "    return self.table"],
        "theirs": ["def create(self):", *_BEFORE, "    self.table = unsigned(64)", "    return self.table"],
    },
    {"path": "serve/gone.py", "line": 12, "base": ["count = 1"], "ours": [], "theirs": ["count = 0"]},
    {"path": "serve/old.py", "line": 0, "base": [], "ours": ["the file is not there"], "theirs": []},
]
_MOVED = [
    {"path": "serve/old.py", "to": "serve/new.py", "similarity": 93, "identical": True, "lines": [41, 97]},
    {"path": "serve/part.py", "to": "serve/whole.py", "similarity": 0, "identical": True, "lines": [7]},
    {"path": "serve/gone.py", "to": None, "similarity": 0, "identical": False, "lines": []},
]


def _hunks(outcome: str) -> list[dict[str, Any]]:
    def hunk(number: int, state: str, lines: list[int], offset: int = 0, path: str = "worker/tables.py") -> dict:
        claimed = {1: 19, 2: 86, 3: 140}[number]
        return {
            "path": path,
            "number": number,
            "claimed": claimed,
            "state": state,
            "lines": lines,
            "offset": offset,
        }

    return {
        "applies": [hunk(1, "fits", [19]), hunk(2, "fits", [142], 56)],
        "merges": [hunk(1, "fits", [19]), hunk(2, "lost", [])],
        "partial": [hunk(1, "in", [21]), hunk(2, "fits", [86])],
        "ambiguous": [hunk(1, "twice", [19, 310])],
        "conflicts": [
            hunk(1, "fits", [17], -2),
            hunk(2, "lost", []),
            hunk(3, "in", [140]),
            hunk(1, "missing", [], path="serve/old.py"),
        ],
    }.get(outcome, [])


#: What must not do anything, and must be readable all the same.
HOSTILE = (
    "</script><script>window.pwned = 1</script>",
    "</style><style>body { display: none }</style>",
    "<img src=x onerror=\"window.pwned = 1\"><iframe src='https://evil.example/'></iframe>",
    '" onmouseover="window.pwned = 1" x=\'',
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "<!-- --><![CDATA[ ]]> &lt;b&gt; &amp;",
    "a\x00b\x07c\x1b[31mred\x1b[0m\x7f\x9b",
    "access = '\u202euser\u2066 // admin\u2069 \u2066'\u200b\u2028next\u2029\ufeff",
    "lone \ud800 surrogate",
    "שלום مرحبا 你好",
    "e" + "\u0301" * 60,
)
HUGE = "x = '" + "A" * 200_000 + "'"


def hostile() -> dict[str, Any]:
    """The same forecast with hostile text wherever the document holds text that others wrote."""
    made = document()
    bad = list(HOSTILE)
    for at, patch in enumerate(made["patches"]):
        patch["title"] = f"{patch['title']} {bad[at]}"
        patch["why"] = "\n\n".join([*bad, "    " + bad[0], "* " + bad[2]])
        patch["drop_when"] = bad[2]
        patch["references"] = [
            {"ref": ref, "what": bad[0], "state": "open", "first_release": None}
            for ref in (
                "javascript:window.pwned=1",
                "https://github.com@evil.example/vllm-project/vllm/pull/1",
                'https://example.org/"onclick="x',
                "https://example.org/\u202egro.elpmaxe",
                "http://example.org/plain",
                "https://[::1",
                "https://example.org/good",
            )
        ]
    for cell in made["cells"]:
        cell["evidence"] = [*bad, HUGE]
        cell["so"] = bad[0]
        for clash in cell["conflicts"]:
            clash["ours"] = [*bad, HUGE] if clash["line"] else bad
        cell["conflicts"] = [{**clash, "path": bad[2]} for clash in cell["conflicts"]]
        cell["hunks"] = [{**hunk, "path": bad[3]} for hunk in cell["hunks"]]
        cell["moved"] = [{**item, "path": bad[4], "to": item["to"] and bad[7]} for item in cell["moved"]]
        for finding in filter(None, (cell["probe"]["base"], cell["probe"]["patched"])):
            finding["reason"] = "\n".join(bad)
            finding["checks"] = [{"name": bad[0], "verdict": finding["verdict"], "reason": bad[7]}]
        cell["probe"]["not_run"] = cell["probe"]["not_run"] and bad[1]
    made["unavailable"][0].update(why=bad[0], next=bad[3])
    for release in made["releases"]:
        release["changes"] = [{**item, "meaning": bad[5], "name": bad[2]} for item in release["changes"]]
        release["stack"] = {**release["stack"], bad[0]: bad[1]}
    return made
