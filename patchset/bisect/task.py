"""Which step of a bisection a command line asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from patchset import lab
from patchset import page as frame
from patchset.bisect import answer, flow, page, show
from patchset.bisect.installed import Installer
from patchset.bisect.line import Element, edits
from patchset.bisect.record import Question, Record, read_record
from patchset.bisect.refs import COMMIT, Point, Refs, as_declared
from patchset.bisect.session import Session
from patchset.bisect.states import Stuck, Trees
from patchset.bisect.trial import Command, Probing, Smoking, Trial, require_shell
from patchset.console import Console
from patchset.errors import BisectError, DeclarationError, WorktreeError
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.store import Store, elsewhere
from patchset.workspace import Workspace, digest, sources_digest, write_atomically

STAGES = ("tree", "wheel", "host")


@dataclass(frozen=True)
class Wish:
    """The flags of ``inv bisect`` that are no part of the question. ``page``: where the page goes, if one is wanted."""

    go_on: bool = False
    log: bool = False
    abort: bool = False
    fresh: bool = False
    page: Path | None = None


def folder(workspace: Workspace) -> Path:
    """Where the state of a bisection is, and what its runs printed."""
    return workspace.work / "bisect"


def run(project: Project, question: Question, wish: Wish, console: Console) -> dict[str, Any] | None:
    """Do what is asked for and show it. The document; None where there is none (``--log``, ``--abort``).

    :raises DeclarationError: not just one thing is asked for, or a bisection is under way already.
    :raises BisectError: an end is not what it was said to be.
    """
    ways = {"--continue": wish.go_on, "--log": wish.log, "--abort": wish.abort}
    ways |= {"--at": bool(question.at), "--bad": bool(question.bad)}
    asked = [name for name, on in ways.items() if on]
    if len(asked) != 1:
        raise DeclarationError(
            f"{' and '.join(asked)} do not go together"
            if asked
            else "nothing is asked for: name --good REF and --bad REF, --at REF, --continue, --log or --abort",
            next="./inv --help bisect",
        )
    home = folder(project.workspace)
    if wish.page:
        frame.require_place(wish.page, page.TITLE)
        if home in wish.page.parents:
            raise WorktreeError("that is where the state is kept", where=str(wish.page), next="name another file")
    if wish.abort:
        show.show_aborted(console, _abort(home))
        return None
    record = None if question.at else read_record(home / "state.json")
    if wish.log:
        show.show_log(console, _require(record))
        return None
    if wish.go_on:
        record = _require(record)
        if record.answer:
            _publish(record.answer, wish, console)
            return record.answer
        question = record.question
    elif record and not record.answer and not question.at:
        raise DeclarationError(
            f"a bisection is under way, with {len(record.steps)} steps done",
            where=str(record.file),
            next="./inv bisect --continue, or ./inv bisect --abort",
        )
    if not wish.go_on:
        question = _placed(question)
    _check(question)
    return _ask(project, question, record if wish.go_on else None, wish, console)


def _placed(question: Question) -> Question:
    """*question* with the place where it was asked, and its files named from the root: --continue may be typed elsewhere."""
    here = Path.cwd()

    def absolute(ref: str) -> str:
        whole, colon, part = ref.partition(":")
        named = whole.endswith((".lock", ".json", ".toml")) and (here / whole).is_file()
        return f"{here / whole}{colon}{part}" if named else ref

    ends = {name: absolute(getattr(question, name)) for name in ("good", "bad", "at")}
    history = str(here / question.history) if question.history else ""
    return replace(question, here=str(here), history=history, **ends)


def _publish(document: dict[str, Any], wish: Wish, console: Console) -> None:
    _write_page(document, wish)
    show.show(console, document)


def _write_page(document: dict[str, Any], wish: Wish) -> None:
    if wish.page:
        write_atomically(wish.page, page.page(document).encode("utf-8"))


def _require(record: Record | None) -> Record:
    if record is None:
        raise DeclarationError("no bisection is under way", next="./inv bisect --good REF --bad REF --test …")
    return record


def _abort(home: Path) -> bool:
    _require_ours(home)
    there = home.exists()
    _clear(home)
    return there


def _require_ours(home: Path) -> None:
    """:raises WorktreeError: something is where the state goes, and it is not of a bisection."""
    if home.is_symlink() or (home.exists() and not home.is_dir()):
        what = "there is something else than the folder of a bisection"
    elif home.is_dir() and not (home / "state.json").is_file() and any(not _is_ours(path) for path in home.iterdir()):
        what = "there are files that no bisection wrote"
    else:
        return
    raise WorktreeError(
        what, where=str(home), next="move it elsewhere; work/bisect is where a bisection keeps its state"
    )


def _is_ours(path: Path) -> bool:
    return path.suffix in (".log", ".part") or path.name == "state.json"


def _clear(home: Path) -> None:
    """Remove what bisections wrote to *home*, and *home* if that is all there was."""
    # the state goes first: what is left of the rest then belongs to nothing
    (home / "state.json").unlink(missing_ok=True)
    for path in list(home.iterdir()) if home.is_dir() else []:
        if _is_ours(path) and not path.is_dir():
            path.unlink()
    with suppress(OSError):
        home.rmdir()


def _check(question: Question) -> None:
    if question.stage == "host":
        raise DeclarationError(
            "stage host is not built into this version: nothing can be tested on a serving host yet",
            next="--stage tree, or --stage wheel and a test that copies $PATCHSET_WHEEL there",
        )
    if question.stage not in STAGES:
        raise DeclarationError(f"no stage {question.stage!r}", next=f"--stage {' or '.join(STAGES)}")
    if question.over and question.over not in flow.AXES:
        raise DeclarationError(f"no axis {question.over!r}", next=f"--over {', '.join(flow.AXES)}")
    if question.bad and not (question.good or question.drop_one):
        raise DeclarationError("a bisection has two ends", next="--good REF, for example --good base")
    for name, value, least in (("repeat", question.repeat, 1), ("jobs", question.jobs, 1)):
        if not least <= value <= 100:
            raise DeclarationError(f"--{name} {value} is not between {least} and 100", next=f"--{name} {least}")
    if not 0 < question.timeout <= 7 * 24 * 3600:
        raise DeclarationError(
            f"--timeout {question.timeout:g} is not between 0 seconds and a week", next="--timeout 600"
        )
    if question.minimize and question.drop_one:
        raise DeclarationError("--minimize and --drop-one are two questions", next="ask one after the other")


# -- a question --------------------------------------------------------------------------------------------------------


def _ask(project: Project, question: Question, record: Record | None, wish: Wish, console: Console) -> dict[str, Any]:
    workspace = project.workspace
    store = Store.open(workspace.store)
    recipe = project.recipe(question.recipe)
    bases = project.bases(store, console.say, recipe.pin.upstream)
    carried = _carried(project, recipe, question.series)
    history = Path(question.history) if question.history else None
    refs = Refs(project, recipe, store, bases, carried, history)
    points = tuple(refs.read(ref) for ref in (question.at, question.good, question.bad) if ref)
    trial = _trial(project, question, recipe, store, wish.fresh, console)
    fingerprint = _fingerprint(points, question, trial)
    if record and record.fingerprint != fingerprint:
        raise DeclarationError(
            "what is asked is not what it was when this bisection began: a patch, the test, the environment or this tool "
            "changed",
            where=str(record.file),
            next="./inv bisect --abort, and begin again: results that still hold are known",
        )
    home = folder(workspace)
    with _room(workspace, home, single=bool(question.at)) as (logs, scratch):
        record = record or Record(logs / "state.json", question, fingerprint)
        bring = _bringer(store, history) if history else lambda tree: None
        trees = Trees(store, bases, recipe.pin.release, bring)
        cache = None if wish.fresh or question.at else workspace.cache / "bisect"
        with closing(
            Session(record, trial, trees, cache=cache, logs=logs, scratch=scratch, say=console.say)
        ) as session:
            if question.at:
                session.judge(points[0].state(), "single")
                result = answer.single(session, points[0].state())
            else:
                record.save()
                try:
                    result = _search(project, session, recipe, points, console)
                except (BisectError, DeclarationError) as error:
                    # it ended, and not well: nothing is left to go on with
                    record.answer = answer.document(session, answer.none(error))
                    record.save()
                    _write_page(record.answer, wish)
                    raise
            record.answer = answer.document(session, result)
            record.save()
    _publish(record.answer, wish, console)
    return record.answer


def _bringer(store: Store, history: Path) -> Callable[[str], None]:
    """Brings the trees of commits, each once: there can be thousands, and few of them are looked at."""
    here: set[str] = set()

    def bring(tree: str) -> None:
        if tree not in here and not store.has_object(tree):
            elsewhere.bring_tree(store, history, tree)
        here.add(tree)

    return bring


@contextmanager
def _room(workspace: Workspace, home: Path, *, single: bool) -> Iterator[tuple[Path, Path]]:
    """(where state and logs go, scratch). A single step leaves a bisection that is under way alone."""
    logs = workspace.logs / "bisect-step" if single else home
    if single or not (home / "state.json").exists() or _is_done(home / "state.json"):
        _require_ours(logs)
        _clear(logs)
    logs.mkdir(parents=True, exist_ok=True)
    with workspace.scratch() as scratch:
        yield logs, scratch


def _is_done(file: Path) -> bool:
    record = read_record(file)
    return record is not None and record.answer is not None


def _carried(project: Project, recipe: Recipe, series: str) -> tuple[Element, ...]:
    """What a bare release gets: the recipe's series, or the patches that --series names."""
    if series == "none":
        return ()
    names = [name.strip() for name in series.split(",")] if series else list(recipe.series)
    for name in names:
        if name not in project.patches:
            raise DeclarationError(
                f"--series: no patch {name!r} (there are: {', '.join(project.patches)})", next="--series none, or ids"
            )
    return tuple(as_declared(project.patches[name]) for name in names)


def _trial(project: Project, question: Question, recipe: Recipe, store: Store, fresh: bool, console: Console) -> Trial:
    workspace = project.workspace
    words = question.test.split()
    builtin = words[:1] in (["smoke"], ["probe"])
    laboratory = lab.ensure(workspace.environments, console.say) if builtin or question.stage == "wheel" else None
    installer = None
    if question.stage == "wheel":
        assert laboratory
        installer = Installer(workspace, store, project.upstreams[recipe.pin.upstream], laboratory)
    if words == ["smoke"]:
        assert laboratory
        return Smoking("interpret", recipe.smoke_set, laboratory, workspace.root, installer)
    if words[:1] == ["probe"]:
        assert laboratory
        return _probing(project, question, words[1:], laboratory, fresh)
    if not words:
        raise DeclarationError("the test is empty", next='--test smoke, --test "probe ID", or --test "COMMAND"')
    require_shell()
    return Command(question.test, question.timeout, Path(question.here), workspace, installer)


def _probing(project: Project, question: Question, words: list[str], laboratory: lab.Lab, fresh: bool) -> Probing:
    id, _, check = (words[0] if len(words) == 1 else "").partition(":")
    if id not in project.patches:
        raise DeclarationError(
            f"--test {question.test!r}: a probe is named by its patch (there are: {', '.join(project.patches)})",
            next='--test "probe ID", or --test "probe ID:CHECK" for one of its checks',
        )
    if question.stage != "tree":
        raise DeclarationError("a probe looks at a tree, not at a wheel", next="--stage tree")
    return Probing(project.patches[id], check, laboratory, project.workspace.cache, fresh)


def _fingerprint(points: tuple[Point, ...], question: Question, trial: Trial) -> str:
    ends = [
        [
            point.release,
            point.base,
            [
                [
                    element.id,
                    element.digest,
                    element.after,
                    sources_digest(element.patch.folder) if element.patch else "",
                ]
                for element in point.elements
            ],
        ]
        for point in points
    ]
    return digest([asdict(replace(question, jobs=1)), ends, trial.identity])


def _search(
    project: Project, session: Session, recipe: Recipe, points: tuple[Point, ...], console: Console
) -> dict[str, Any]:
    question = session.record.question
    bad = points[-1]
    if question.drop_one:
        _require_bad(session, bad)
        return answer.dropped(session, flow.drop_one(session, bad))
    good = points[0]
    flow.verify(session, good.state(), bad.state())
    series = tuple(as_declared(patch) for patch in project.series_of(recipe))
    if question.minimize:
        others = (*good.elements, *(element for element in series if element.id not in [e.id for e in good.elements]))
        return answer.minimal(session, flow.minimize(session, good, bad, others))
    axis = question.over or _axis(good, bad)
    _check_axis(axis, good, bad)
    touched = _touched(session, recipe, series)
    if axis == "patches":
        return answer.found(session, flow.over_patches(session, good, bad), touched)
    between = _between(session, good, bad, console)
    if axis == "releases":
        return answer.found(session, flow.over_releases(session, between, bad.elements), touched)
    result = flow.over_both(session, good, bad, between)
    if isinstance(result, flow.Pair):
        return answer.pair(session, result, touched)
    return answer.found(session, result, touched)


def _require_bad(session: Session, bad: Point) -> None:
    seen = session.judge(bad.state(), "bad end")
    if not seen.failed:
        raise BisectError(
            "the bad end is not bad: without a fault there is nothing to drop",
            where=bad.text,
            next=answer.again(session.record, str(session.trees.of(bad.state())), bad.release),
        )


def _axis(good: Point, bad: Point) -> str:
    if good.release == bad.release and good.base == bad.base:
        return "patches"
    return "both" if edits(good.elements, bad.elements) else "releases"


def _check_axis(axis: str, good: Point, bad: Point) -> None:
    same = good.base == bad.base
    if axis == "patches" and not same:
        raise DeclarationError(
            f"the ends are of two states of vLLM, {good.text} and {bad.text}: their patches alone are not the difference",
            next="--over both, or name two ends of one release",
        )
    if axis != "patches" and same:
        raise DeclarationError(
            f"both ends are of vLLM {good.release}: nothing of upstream is between them", next="--over patches"
        )
    if axis == "releases" and edits(good.elements, bad.elements):
        raise DeclarationError(
            "the ends differ in their patches too", next="--over both; or name two releases: they get the same patches"
        )
    if axis == "both" and not edits(good.elements, bad.elements):
        raise DeclarationError("the ends have the same patches", next="--over releases")


def _between(session: Session, good: Point, bad: Point, console: Console) -> list[flow.Base]:
    """Every state of the upstream from the good end's to the bad one's, in that order: releases, or commits of --history.

    :raises SourceError: a release in between cannot be had.
    """
    bases = session.trees.bases
    ends = [point.ref.removeprefix(COMMIT) for point in (good, bad) if point.ref.startswith(COMMIT)]
    if len(ends) == 1:
        raise DeclarationError("one end is a commit, and the other is not", next="name both as commit:REV, or none")
    if ends:
        return _commits(session, Path(session.record.question.history), good, bad, ends)
    if good.release == bad.release:  # two trees, or a release's archive and a checkout near it: nothing lies between
        return [flow.Base(point.text, point.release, point.base) for point in (good, bad)]
    low, high = sorted((Version(good.release), Version(bad.release)))
    releases = [release for release in bases.upstream.releases if low <= Version(release) <= high]
    if Version(good.release) > Version(bad.release):
        releases.reverse()
    with console.step(f"{len(releases)} releases"):
        trees = {release: bases.tree(release) for release in releases}
    trees[good.release], trees[bad.release] = good.base, bad.base
    return [flow.Base(f"vLLM {release}", release, tree) for release, tree in trees.items()]


def _commits(session: Session, history: Path, good: Point, bad: Point, ends: list[str]) -> list[flow.Base]:
    """The commits between two ends of one line, the older end being either."""
    store = session.trees.store
    try:
        listed = elsewhere.commits_between(store, history, *ends)
    except DeclarationError:
        listed = tuple(reversed(elsewhere.commits_between(store, history, *reversed(ends))))
    return [flow.Base(f"commit {item.oid[:12]} ({item.subject})", good.release, item.tree) for item in listed]


def _touched(session: Session, recipe: Recipe, series: tuple[Element, ...]) -> tuple[str, ...]:
    """The files that the recipe's series changes on its own release."""
    trees = session.trees
    base = trees.bases.tree(recipe.pin.release)
    tree = trees.of(Point("", "", recipe.pin.release, base, series).state())
    return () if isinstance(tree, Stuck) else trees.store.changed_paths(base, tree)
