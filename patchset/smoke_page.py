"""The smoke's results as one HTML page that needs nothing else: kernels × lanes, resources against the B70's limits, times.

What keeps its texts from having any effect is in ``page``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchset import budget
from patchset import page as frame
from patchset import smoke_view as view
from patchset.budget import Comparison
from patchset.smoke import limits

if TYPE_CHECKING:
    from patchset.runtime import Smoked

#: What stands in the page's title; a file without it is never replaced.
TITLE = "Smoke"
_NAME = "smoke_page"
#: Characters of a message that are shown.
_LINE = 2000
#: A bar of spilled bytes is never drawn on less than this, so that the line at which they are retried has room.
_SPILL_SCALE = 2 * limits.SPILL_RETRY
#: Wrong cases of one kernel that are named; the rest are counted.
_WRONG_SHOWN = 12


def page(recipe: str, smoked: Smoked, compared: Comparison | None) -> str:
    """The page of *smoked*, which was asked for *recipe*; the same results give the same text.

    :param compared: the machine code beside that of an earlier run, if there was one.
    """
    not_run = {lane: error.what for lane, error in smoked.not_run.items()}
    environment = frame.environment(Path(__file__).parent)
    environment.filters.update(
        cut=_cut,
        size=budget.size,
        percent=budget.percent,
        span=view.span,
        wrong=_wrong,
        resources=_resources,
        name=_name,
    )
    style = environment.get_template(f"{_NAME}.css.jinja").render()
    native = budget.native_of({"lanes": smoked.results})
    loads = view.loads(native) if native else []
    return environment.get_template(f"{_NAME}.html.jinja").render(
        title=TITLE,
        recipe=recipe,
        wheel=smoked.wheel.name,
        results=smoked.results,
        lanes=list(view.ABOUT),
        about=view.ABOUT,
        rows=view.rows(smoked.results, not_run, list(view.ABOUT)),
        gaps=view.gaps(smoked.results, not_run),
        unknown=view.unknown(smoked.results),
        against=[(result["lane"], text) for result in smoked.results for text in view.speak_against(result)],
        tiles=_tiles(smoked.results, not_run),
        heavy=_pairs([load for load in loads if load.spill or load.scratch or load.shared or load.unfit], loads),
        light=_light(loads),
        native=native,
        SPILL_SCALE=_SPILL_SCALE,
        LIMITS=limits,
        timed=[(result, view.times(result)) for result in smoked.results if view.times(result)],
        compared=compared,
        changes=budget.lines(compared) if compared else [],
        policy=frame.policy(style),
        style=frame.markup(style),
    )


def _pairs(heavy: Sequence[view.Load], loads: Sequence[view.Load]) -> list[tuple[str, list[view.Load]]]:
    """(kernel, its loads in each mode), the heaviest first."""
    names = dict.fromkeys(load.kernel for load in heavy)
    return [(name, [load for load in loads if load.kernel == name]) for name in names]


def _light(loads: Sequence[view.Load]) -> list[str]:
    """The kernels that take nothing beside their registers."""
    heavy = {load.kernel for load in loads if load.spill or load.scratch or load.shared or load.unfit}
    return [name for name in dict.fromkeys(load.kernel for load in loads) if name not in heavy]


def _tiles(results: Sequence[Mapping[str, Any]], not_run: Mapping[str, str]) -> list[tuple[str, str, int, str]]:
    """(tone, place, number, words) of what is counted over all lanes; what is wrong comes first."""
    bad = sum(result["summary"]["kernels"][key] for result in results for key in ("failed", "missing"))
    passed, known = (sum(result["summary"]["cases"][key] for result in results) for key in ("passed", "known-defect"))
    gone, told = len(view.gaps(results, not_run)), sum(len(view.speak_against(result)) for result in results)
    return [
        ("bad" if bad else "", "wrong", bad, "wrong: a kernel in a lane"),
        *([("bad", "wrong", told, "planted faults unseen, or at odds with the receipt")] if told else []),
        *([("warn", "matrix", known, "with a known upstream defect")] if known else []),
        ("warn" if gone else "", "gaps", gone, "not run"),
        ("", "matrix", passed, f"cases passed, in {len(results)} of {len(view.ABOUT)} lanes"),
    ]


def _wrong(result: Mapping[str, Any]) -> list[tuple[str, str, list[str], int]]:
    """Of each kernel that did not pass: its name, its message, its wrong cases, and how many more there are."""
    found = []
    for kernel in result["kernels"]:
        if kernel["status"] not in ("failed", "missing"):
            continue
        cases = [
            f"{case['name']}: {'; '.join([*filter(None, [case['message']]), *map(_difference, case['differences'])])}"
            for case in kernel["cases"]
            if case["status"] == "failed"
        ]
        found.append((kernel["name"], kernel["message"], cases[:_WRONG_SHOWN], max(len(cases) - _WRONG_SHOWN, 0)))
    return found


def _difference(item: Mapping[str, Any]) -> str:
    where = f" at {', '.join(str(list(index)) for index in item['first'])}" if item["first"] else ""
    return f"{item['array']}: {item['what']}{where}"


def _resources(result: Mapping[str, Any], kernel: str) -> list[Mapping[str, Any]]:
    """Every specialisation of *kernel* in each mode, as the compiler told of it, the one with most scratch first."""
    mine = next(item.get("resources", ()) for item in result["kernels"] if item["name"] == kernel)
    return sorted(mine, key=lambda one: (-(one.get("scratch") or 0), -(one.get("spill") or 0), one["module"]))


def _cut(text: str) -> str:
    left = len(text) - _LINE
    return text if left <= 0 else f"{text[:_LINE]} ⟨{left} more characters: see --json⟩"


def _name(text: str) -> object:
    """*text*, which a browser may break after underscores."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in frame.visible(text).split("_"))
