"""From two ends to an answer: both verified, then the axis, the search, and what else was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchset.bisect import minimal
from patchset.bisect.evidence import Tally, Verdict, differ, side
from patchset.bisect.line import Edit, Element, edits, with_edits
from patchset.bisect.refs import Point
from patchset.bisect.search import narrow
from patchset.bisect.session import Session
from patchset.bisect.states import State, Stuck
from patchset.errors import BisectError, DeclarationError

_IsGood = Callable[[Sequence[Element]], "bool | None"]
_Order = Callable[[Sequence[Element]], Sequence[Element]]

AXES = ("patches", "releases", "both")

#: Runs of each neighbour, in multiples of those asked for, before two states that look alike are called so.
_MORE = (2, 4, 8, 12)


@dataclass(frozen=True)
class Base:
    """A state of the upstream: what a person calls it, the release whose variants count for it, and its tree."""

    text: str
    release: str
    tree: str


@dataclass(frozen=True)
class Found:
    """Where good turns to bad on one axis.

    ``line`` are the states that differ, in the order from good to bad; ``good`` and ``bad`` positions in it, one apart if
    ``kind`` is ``change``. ``span``: what lies between says nothing. ``flaky``: the test cannot tell them apart.
    ``edits`` are the differences that lead to each position from the one before, None for the first (axis ``patches`` only).
    """

    axis: str
    kind: str
    line: tuple[State, ...]
    good: int
    bad: int
    edits: tuple[Edit | None, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Bad needs both: the change on one axis and the change on the other. ``alone``: neither shows it without the other."""

    release: Found
    patches: Found | None
    alone: bool


@dataclass(frozen=True)
class Minimal:
    """A set of patches, on the bare base, that shows the fault, and none of which can be left out.

    ``cured`` are patches, not in it, with which it does not show; ``state`` is the set, ``without`` each set with one less.
    """

    patches: tuple[Element, ...]
    cured: tuple[Element, ...]
    state: State
    without: tuple[State, ...]


@dataclass(frozen=True)
class Dropped:
    """One patch left out of the bad end: good, bad, or why there is no tree."""

    element: Element
    state: State


# -- the ends ----------------------------------------------------------------------------------------------------------


def verify(session: Session, good: State, bad: State) -> None:
    """Test both ends; a search between ends that are not what they are called finds a culprit all the same, a wrong one.

    :raises BisectError: one of them is not what it was said to be, or the test says nothing of it.
    :raises DeclarationError: they are one and the same tree.
    """
    session.prepare(good)  # beside the making of the bad end's tree, which can be as long
    trees = [session.trees.of(state) for state in (good, bad)]
    if trees[0] == trees[1] and not isinstance(trees[0], Stuck):
        raise DeclarationError(
            f"both ends are one tree, {trees[0][:12]}",
            where=f"{good.label}; {bad.label}",
            next="name two ends that differ; ./inv diff RECIPE RECIPE shows what they make",
        )
    tallies = [session.judge(state, role) for state, role in ((good, "good end"), (bad, "bad end"))]
    for state, seen, name in zip((good, bad), tallies, ("good", "bad"), strict=True):
        if not seen.runs:
            raise BisectError(
                f"nothing can be said of the {name} end: {_why(session, state)}",
                where=state.label,
                next="mend the test, or name another end",
            )
    if tallies[0].verdict is Verdict.BAD:
        raise BisectError(
            f"the good end is bad: {_why(session, good)}",
            where=good.label,
            next="name another --good; --fresh, if what is known from before does not hold any more; or mend the test: "
            "./inv bisect --at REF --test … runs it once",
        )
    if tallies[1].verdict is Verdict.GOOD:
        raise BisectError(
            f"the bad end is good: {_why(session, bad)}",
            where=bad.label,
            next="name another --bad, or --repeat N for a fault that does not show each time",
        )
    if session.record.mixed and not _separate(session, good, bad):
        seen = [session.tally(state) or Tally() for state in (good, bad)]
        raise BisectError(
            "the test is flaky: it does not tell the ends apart "
            f"(good end: {seen[0].failed} of {seen[0].runs} failed, bad end: {seen[1].failed} of {seen[1].runs})",
            where=f"{good.label}; {bad.label}",
            next="a test that fails more surely, or a larger --repeat",
        )


def _separate(session: Session, good: State, bad: State) -> bool:
    """Run both more often until the rates at which they fail differ by more than chance, or are likely the same."""
    for factor in (1, *_MORE):
        wanted = session.record.question.repeat * factor
        tallies = [
            session.judge(state, "confirm", wanted) if factor > 1 else session.tally(state) for state in (good, bad)
        ]
        if differ(tallies[0] or Tally(), tallies[1] or Tally()):
            return True
    return False


def _belongs(session: Session, state: State, role: str, good: Point, bad: Point) -> bool | None:
    """Is *state* like the good end (True) or the bad one (False)? None: nothing can be said.

    Where the test is flaky, it is run until *state* differs from the other end by more than chance.

    :raises BisectError: it does not.
    """
    for factor in (1, *_MORE):
        wanted = session.record.question.repeat * factor
        seen = session.judge(state, role if factor == 1 else "confirm", wanted)
        ends = [session.judge(point.state(), "confirm", wanted) for point in (good, bad)]
        belongs = side(seen, *ends)
        if belongs is None or not session.record.mixed:
            return belongs
        if differ(seen, ends[1]) if belongs else differ(ends[0], seen):
            return belongs
    raise BisectError(
        f"the test is flaky: it does not tell on which side this is ({seen.failed} of {seen.runs} failed; good end: "
        f"{ends[0].failed} of {ends[0].runs}, bad end: {ends[1].failed} of {ends[1].runs})",
        where=state.label,
        next="a test that fails more surely, or a larger --repeat",
    )


def _why(session: Session, state: State) -> str:
    tree = session.trees.of(state)
    if isinstance(tree, Stuck):
        return f"{Verdict.CANNOT_APPLY.value}, {tree.patch}: {tree.why}"
    runs = session.record.runs.get(tree, [])
    return f"{runs[-1].result.value}, {runs[-1].reason}" if runs else "it was not run"


# -- one axis ----------------------------------------------------------------------------------------------------------


def over_patches(session: Session, good: Point, bad: Point, role: str = "patches") -> Found:
    """Which difference between two series of one release it is. Both ends were verified."""
    all_edits = edits(good.elements, bad.elements)
    line, leading = [good.state()], [None]
    for index, edit in enumerate(all_edits):
        elements = with_edits(good.elements, bad.elements, all_edits, range(index + 1))
        state = State(f"with {edit.text}", good.release, good.base, elements)
        tree = session.trees.of(state)
        # a change that makes no other tree cannot be the one, and is no step of its own
        if isinstance(tree, Stuck) or tree != session.trees.of(line[-1]):
            line.append(state)
            leading.append(edit)
    line[-1] = bad.state()
    return replace(_search(session, "patches", line, role), edits=tuple(leading))


def over_releases(
    session: Session, bases: Sequence[Base], elements: Sequence[Element], role: str = "releases"
) -> Found:
    """Between which of *bases*, from good to bad, with *elements* carried to each, it is."""
    line = [State(base.text, base.release, base.tree, tuple(elements)) for base in bases]
    return _search(session, "releases", line, role)


def _search(session: Session, axis: str, line: Sequence[State], role: str) -> Found:
    states = tuple(line)
    last = len(states) - 1
    while True:
        session.look(states, role)
        narrowed = narrow(last, session.sides(states))
        kind = "change" if narrowed.exact else "span"
        if not session.record.mixed:
            return Found(axis, kind, states, narrowed.good, narrowed.bad)
        # Some tree both passed and failed: the neighbours are run until they differ by more than chance. What comes out
        # may put one of them on the other side; then the search goes on from what is known by then.
        for factor in _MORE:
            wanted = session.record.question.repeat * factor
            pair = [session.judge(states[position], "confirm", wanted) for position in (narrowed.good, narrowed.bad)]
            if narrow(last, session.sides(states)) != narrowed:
                break
            if differ(*pair):
                return Found(axis, kind, states, narrowed.good, narrowed.bad)
        else:
            return Found(axis, "flaky", states, narrowed.good, narrowed.bad)


# -- both --------------------------------------------------------------------------------------------------------------


def over_both(
    session: Session,
    good: Point,
    bad: Point,
    releases: Sequence[Base],
) -> Found | Pair:
    """Pin and series differ: which of them it is, then where; if neither alone shows it, the release and the patch.

    :raises BisectError: the ends' series cannot be had on each other's release, so nothing can be said apart.
    """
    new_release = State(f"{bad.text}, with the series of the good end", bad.release, bad.base, good.elements)
    new_series = State(f"{good.text}, with the series of the bad end", good.release, good.base, bad.elements)
    sides = [_belongs(session, state, "axis", good, bad) for state in (new_release, new_series)]
    if sides[0] is False:
        return over_releases(session, releases, good.elements)
    if sides[1] is False:
        return over_patches(session, good, replace(bad, release=good.release, base=good.base, text=new_series.label))
    if sides[1] is None:
        raise BisectError(
            f"the bad end's series cannot be tested on {good.release}: {_why(session, new_series)}",
            where=new_series.label,
            next="bisect --over releases or --over patches with ends that share their series or their release",
        )
    # Good with either alone (or, on the new release, with nothing to be said of the old series): bad needs both.
    found = over_releases(session, releases, bad.elements)
    if found.kind != "change":
        return Pair(found, None, alone=sides[0] is True)
    at = found.line[found.bad]
    old = Point("", f"{at.label} with the series of the good end", at.release, at.base, good.elements)
    new = Point("", f"{at.label} with the series of the bad end", at.release, at.base, bad.elements)
    if _belongs(session, old.state(), "axis", good, bad) is not True:
        return Pair(found, None, alone=sides[0] is True)
    return Pair(found, over_patches(session, old, new), alone=sides[0] is True)


# -- sets of patches ---------------------------------------------------------------------------------------------------


def minimize(session: Session, good: Point, bad: Point, others: Sequence[Element]) -> Minimal:
    """The smallest set of the bad end's patches that shows the fault on the bare base, and what of *others* cures it.

    :raises BisectError: the bare base shows it too, so no patch is needed for it.
    """

    def state(elements: Sequence[Element]) -> State:
        names = ", ".join(element.id for element in elements) or "no patch"
        return State(
            f"only {names}" if len(elements) < 5 else f"{len(elements)} patches", bad.release, bad.base, tuple(elements)
        )

    def is_good(elements: Sequence[Element]) -> bool | None:
        return _belongs(session, state(elements), "minimize", good, bad)

    if is_good(()) is False:
        raise BisectError(
            f"vLLM {bad.release} shows it without any patch: no set of patches is needed for it",
            where="base",
            next="./inv bisect --over releases finds the release that brought it",
        )
    chosen = minimal.minimize(
        range(len(bad.elements)), lambda subset: is_good([bad.elements[index] for index in subset]) is False
    )
    least = [bad.elements[index] for index in chosen]
    without = tuple(state([other for other in least if other is not item]) for item in least)
    for smaller in without:
        session.judge(smaller, "minimize")
    return Minimal(tuple(least), _cures(least, others, is_good), state(least), without)


def _cures(least: Sequence[Element], others: Sequence[Element], is_good: _IsGood) -> tuple[Element, ...]:
    """The smallest set of *others* with which *least* does not show the fault; empty if there is none."""
    having = {element.id for element in least}
    more = [element for element in others if element.id not in having]
    ordered = _in_order(least, others)
    if not more or is_good(ordered(more)) is not True:
        return ()
    chosen = minimal.minimize(range(len(more)), lambda subset: is_good(ordered([more[i] for i in subset])) is True)
    return tuple(more[index] for index in chosen)


def _in_order(least: Sequence[Element], others: Sequence[Element]) -> _Order:
    """Both together in the order that *others* has them in (what it has not comes first)."""
    place = {element.id: index for index, element in enumerate(others)}
    return lambda more: sorted([*least, *more], key=lambda element: place.get(element.id, -1))


def drop_one(session: Session, bad: Point) -> tuple[Dropped, ...]:
    """The bad end without each of its patches in turn."""
    dropped = []
    for element in bad.elements:
        rest = tuple(other for other in bad.elements if other is not element)
        state = State(f"without {element.id}", bad.release, bad.base, rest)
        if session.trees.of(state) == session.trees.of(bad.state()):
            continue  # it changes nothing here
        # where it is flaky, one that passes a few times may be as bad: it is run until chance alone would not do that
        for factor in (1, *_MORE):
            wanted = session.record.question.repeat * factor
            seen = session.judge(state, "drop one" if factor == 1 else "confirm", wanted)
            if seen.failed or not seen.runs or not session.record.mixed:
                break
            if differ(seen, session.judge(bad.state(), "confirm", wanted)):
                break
        dropped.append(Dropped(element, state))
    return tuple(dropped)
