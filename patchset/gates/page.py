"""A gate's result, or a comparison of two, as one HTML page that needs nothing else. What keeps its texts from having any effect: ``patchset.page``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset import page as frame
from patchset.gates import compare, figures

#: What stands in the pages' titles; a file without it is never replaced.
TITLE, COMPARISON = "Gate", "Comparison"
#: A plot's size, in its own units, and the room at its edges for what is written there.
WIDTH, HEIGHT, LEFT, BOTTOM, EDGE = 640, 240, 56, 34, 14
#: Figures of a run → what they are called, and their unit.
NAMES = {
    "beginning": (f"tokens 1 to {figures.BEGINNING} after the first chunk", "tokens/s"),
    "full_output": ("whole output after the first chunk", "tokens/s"),
    "wall": ("whole request", "tokens/s"),
    "ttft": ("time to the first token", "s"),
}


@dataclass(frozen=True)
class Line:
    """A line of a plot: its name, its points as SVG writes them, and (x, y, words) of each point."""

    name: str
    points: str
    marks: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Plot:
    """Lines over one axis each way; ``across`` and ``up`` are (place, words) of their ticks."""

    title: str
    said: str
    unit: str
    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]


def page(document: Mapping[str, Any]) -> str:
    """The page of a judged *document* (:mod:`patchset.gates.document`); the same document gives the same text."""
    found = document["figures"]
    failed = [one for one in document["checks"] if one["verdict"] != "passed"]
    return _render(
        "gate",
        title=TITLE,
        document=document,
        checks=document["checks"],
        failed=failed,
        figures=spreads(found),
        counts=[(name, found[name]) for name in ("answer_tokens", "reasoning_tokens") if name in found],
        rungs=found.get("rungs") or [],
        not_given=found.get("not_given") or {},
        plots=[plot for plot in (_by_position(found), _ladder(found)) if plot],
        requests=_requests(document),
        facts=_facts(document),
    )


def comparison(found: Mapping[str, Any]) -> str:
    """The page of what :func:`patchset.gates.compare.compare` *found*."""
    return _render("comparison", title=COMPARISON, found=found, rows=compare.rows(found), spans=_spans(found))


def _render(name: str, **given: Any) -> str:
    environment = frame.environment(Path(__file__).parent)
    environment.filters["number"] = number
    style = environment.get_template("page.css.jinja").render()
    size = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": BOTTOM, "edge": EDGE}
    return environment.get_template(f"{name}.html.jinja").render(
        policy=frame.policy(style), style=frame.markup(style), size=size, **given
    )


def number(value: object) -> str:
    """A figure in at most four digits that count; – for none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def spreads(found: Mapping[str, Any]) -> list[tuple[str, str, list[Any]]]:
    """(what, unit, [median, p10, mean, stdev, answers]) of each of :data:`NAMES` that the figures *found* have."""
    rows = []
    for name, (told, unit) in NAMES.items():
        end = "_s" if name == "ttft" else ""
        if f"{name}_of" in found:
            values = [found.get(f"{name}_{what}{end}") for what in ("median", "p10", "mean", "stdev")]
            rows.append((told, unit, [*values, found[f"{name}_of"]]))
    return rows


def _by_position(found: Mapping[str, Any]) -> Plot | None:
    points = found.get("by_position") or []
    if len(points) < 2:
        return None
    return plot(
        "Rate by position",
        f"median over the answers, each point of {figures.WINDOW} tokens or more; across: tokens after the first chunk",
        {"": points},
    )


def _ladder(found: Mapping[str, Any]) -> Plot | None:
    rows = [row for row in found.get("rungs") or [] if row["aggregate"] is not None]
    if len({row["concurrency"] for row in rows}) < 2:
        return None
    lines = {
        f"{phase}, {told}": [[row["concurrency"], row[key]] for row in rows if row["phase"] == phase and row[key]]
        for phase in ("cold", "warm")
        for key, told in (("aggregate", "all together"), ("request_median", "one request"))
    }
    return plot("Ladder", "across: requests at once", lines)


def plot(title: str, said: str, lines: Mapping[str, Sequence[Sequence[float]]]) -> Plot:
    """*lines*, name → [x, y] points, drawn from zero up and from the least x on."""
    every = [point for points in lines.values() for point in points]
    least, most = min(x for x, _ in every), max(x for x, _ in every)
    top = _round_up(max(y for _, y in every))
    wide, high = WIDTH - LEFT - EDGE, HEIGHT - BOTTOM - EDGE

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(LEFT + wide * (x - least) / ((most - least) or 1), 2),
            round(HEIGHT - BOTTOM - high * y / (top or 1), 2),
        )

    drawn = []
    for name, points in lines.items():
        places = [place(x, y) for x, y in points]
        words = [f"{number(x)}: {number(y)} tokens/s" for x, y in points]
        marks = tuple((x, y, text) for (x, y), text in zip(places, words, strict=True))
        drawn.append(Line(name, " ".join(f"{x},{y}" for x, y in places), marks))
    ticks = sorted({x for x, _ in every})
    ticks = ticks if len(ticks) <= 8 else [ticks[round(at * (len(ticks) - 1) / 7)] for at in range(8)]
    return Plot(
        title,
        said,
        "tokens/s",
        tuple(line for line in drawn if line.points),
        tuple((place(x, 0)[0], number(x)) for x in ticks),
        tuple((place(least, top * share)[1], number(top * share)) for share in (0, 0.5, 1)),
    )


def _round_up(value: float) -> float:
    """The next 1, 2, 4 or 5 with zeros."""
    if value <= 0:
        return 1.0
    step = 10 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next((step * by for by in (1, 2, 4, 5, 10) if step * by >= value), value)


def _requests(document: Mapping[str, Any]) -> list[list[Any]]:
    """[name, phase, at once, tokens in, out, cached, first token, whole, words] of each request that can be read."""
    rows: list[list[Any]] = []
    listed = document.get("requests")
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, Mapping):
            continue
        names = (
            "id",
            "phase",
            "concurrency",
            "prompt_tokens",
            "completion_tokens",
            "cached_tokens",
            "ttft_s",
            "wall_s",
        )
        told = one.get("error") or (
            "first run, compiles" if one.get("jit_tainted") is True else one.get("finish_reason")
        )
        rows.append([*(one.get(name) for name in names), told])
    return rows


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured, in words; what is no text or list of texts is left out."""

    def at(*path: str) -> Any:
        value: Any = document
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    versions = at("server", "versions")
    told = versions.items() if isinstance(versions, Mapping) else ()
    facts = [
        ("model revision", at("model", "revision")),
        ("quantisation", at("model", "quantisation")),
        ("runtime", at("server", "runtime")),
        ("receipt", at("server", "receipt_sha256")),
        ("versions", ", ".join(f"{name} {version}" for name, version in told)),
        ("command", at("server", "command")),
        ("log", at("server", "log", "path")),
        ("timed by", at("timing", "source")),
        ("client", at("client", "library")),
        ("prompts", at("prompts", "set")),
        ("tool", at("tool")),
    ]
    shown = [(name, " ".join(map(str, value)) if isinstance(value, list) else value) for name, value in facts]
    return [(name, value) for name, value in shown if isinstance(value, str) and value]


def _spans(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each figure's interval in per cent of a bar that all share, with the place of 1."""
    rows = found["figures"]
    low = min([0.9, *(row["low"] for row in rows)])
    high = max([1.1, *(row["high"] for row in rows)])

    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 3)

    return [
        {
            "from": at(row["low"]),
            "wide": round(at(row["high"]) - at(row["low"]), 3),
            "at": at(row["ratio"]),
            "one": at(1),
        }
        for row in rows
    ]
