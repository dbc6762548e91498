"""A bisection, for a person."""

from __future__ import annotations

from typing import Any

from patchset.bisect import answer as answers
from patchset.bisect.record import Record
from patchset.console import Console

_WHY_LINES = 6


def show(console: Console, document: dict[str, Any]) -> None:
    """The steps, then the answer."""
    console.json(document)
    if console.as_json:
        return
    _show_steps(console, document["steps"])
    console.line()
    for line in lines(document["answer"]):
        console.line(line)


def lines(answer: dict[str, Any]) -> list[str]:
    """The answer in words; the first line says what was found."""
    return _KINDS[answer["kind"]](answer)


def show_log(console: Console, record: Record) -> None:
    """The steps so far, replayed in the order in which they ended."""
    steps = answers.steps(record)
    console.json({"steps": steps, "answer": record.answer["answer"] if record.answer else None})
    _show_steps(console, steps)
    console.line("ended" if record.answer else "under way: ./inv bisect --continue goes on")


def show_aborted(console: Console, there: bool) -> None:
    """What --abort did."""
    console.json({"aborted": there})
    console.line("the bisection is gone; what was run is still known" if there else "no bisection was under way")


def _show_steps(console: Console, steps: list[dict[str, Any]]) -> None:
    rows = [
        [
            str(step["number"]),
            step["role"],
            step["label"],
            step["verdict"],
            f"{step['failed']}/{len(step['runs'])}" if len(step["runs"]) > 1 else "",
            "known" if step["known"] else f"{step['seconds']:.1f} s",
            step["reason"],
        ]
        for step in steps
    ]
    console.table(["step", "for", "state", "so", "failed", "took", "what it said"], rows)


def _change(answer: dict[str, Any]) -> list[str]:
    return [*(_patch_lines(answer) if answer["axis"] == "patches" else _release_lines(answer)), *_counted(answer)]


def _patch_lines(answer: dict[str, Any]) -> list[str]:
    patch = answer["patches"][0]
    verbs = {
        "removed": "is not there any more, and that brings the fault",
        "changed": "was changed, and that brings the fault",
    }
    lines = [f"{patch['id'] or patch['title']} {verbs.get(patch['edit'], 'brings the fault')}", *_about(patch)]
    return [*lines, *_neighbours(answer)]


def _release_lines(answer: dict[str, Any]) -> list[str]:
    releases = answer["releases"]
    touched = releases["touched"]
    heads = {
        True: f"fixed in {releases['from']}; {releases['to']} still has it",
        False: f"came with {releases['to']}; {releases['from']} does not have it",
        None: f"between {releases['from']} (good) and {releases['to']} (bad)",
    }
    return [
        heads[releases["fixed"]],
        f"  upstream changed {releases['changed']} files between them; of those that the series touches: "
        + (", ".join(touched) if touched else "none"),
        *_neighbours(answer),
    ]


def _about(patch: dict[str, Any]) -> list[str]:
    lines = [f"  {patch['title']}"] if patch["id"] else []
    lines += [f"  {line}" for line in patch.get("why", "").splitlines()[:_WHY_LINES]]
    lines += [f"  {item['path']}: +{item['added']} -{item['removed']}" for item in patch.get("files", [])]
    lines += [f"  {item['ref']}  {item['what']}" for item in patch.get("references", [])]
    return lines


def _neighbours(answer: dict[str, Any]) -> list[str]:
    lines = []
    for name in ("good", "bad"):
        side = answer[name]
        count = f", {side['failed']} of {side['runs']} failed" if side["runs"] > 1 else ""
        lines += [f"  {name}: {side['label']} (tree {side['tree'][:12]}{count}): {side['reason']}"]
        lines += [f"    output {side['log']}", f"    again  {side['again']}"] if side["log"] else []
    return lines


def _counted(answer: dict[str, Any]) -> list[str]:
    changes, tests = answer["changes"], answer["tests"]
    plural = "" if tests == 1 else "s"
    return [f"{tests} test{plural} after the two ends, for {changes} changes (ceil(log2) is {answer['bound']})"]


def _span(answer: dict[str, Any]) -> list[str]:
    if answer["axis"] == "both":
        lines = ["it needs a change of the release and one of the patches, and only this much could be told apart:"]
        return [
            *lines,
            *(
                f"  {line}"
                for part in ("release", "patch")
                if answer[part]
                for line in _KINDS[answer[part]["kind"]](answer[part])
            ),
        ]
    count = len(answer["between"]) + 1
    lines = [f"one of {count} changes: nothing can be said of what lies between"]
    lines += [f"  {item['label']}: {item['why']}" for item in answer["between"]]
    lines += [f"  suspect: {patch['id'] or patch['title']}" for patch in answer.get("patches", [])]
    return [*lines, *_neighbours(answer), *_counted(answer)]


def _flaky(answer: dict[str, Any]) -> list[str]:
    return [
        "flaky: the test does not tell these two apart, so no change is named",
        *_neighbours(answer),
        f"  the difference is chance with a probability of {answer['chance']:.2g}",
        *_counted(answer),
    ]


def _pair(answer: dict[str, Any]) -> list[str]:
    head = (
        "neither the release nor the patches alone: both together"
        if answer["alone"]
        else "on the new release, and with:"
    )
    return [head, *_change(answer["release"]), *_change(answer["patch"])]


def _set(answer: dict[str, Any]) -> list[str]:
    names = ", ".join(patch["id"] for patch in answer["patches"])
    lines = [
        f"shown by {names} alone" if len(answer["patches"]) == 1 else f"shown by {names} together, and by no fewer"
    ]
    for patch in answer["patches"]:
        lines += _about(patch)
    if answer["cured"]:
        lines.append(
            f"  not shown when {', '.join(patch['id'] for patch in answer['cured'])} is there too: it needs that"
        )
    lines += [f"  without {item['patch']}: {item['verdict']}, {item['reason']}" for item in answer["without"]]
    return [*lines, f"  again  {answer['bad']['again']}", f"{answer['tests']} tests after the two ends"]


def _dropped(answer: dict[str, Any]) -> list[str]:
    lines = [f"  without {item['patch']}: {item['verdict']}, {item['reason']}" for item in answer["without"]]
    cure = answer["cure"]
    return [f"it goes away without {', '.join(cure)}" if cure else "no single patch makes it go away", *lines]


def _single(answer: dict[str, Any]) -> list[str]:
    step = answer["step"]
    return [
        f"{step['label']}: {step['verdict']}: {step['reason']}",
        *([f"  output {step['log']}"] if step["log"] else []),
    ]


def _none(answer: dict[str, Any]) -> list[str]:
    error = answer["error"]
    return [f"no answer: {error['what']}", *([f"  at {error['where']}"] if error.get("where") else [])]


_KINDS = {
    "change": _change,
    "span": _span,
    "flaky": _flaky,
    "pair": _pair,
    "set": _set,
    "dropped": _dropped,
    "step": _single,
    "none": _none,
}
