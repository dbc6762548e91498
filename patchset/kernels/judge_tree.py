"""Does a kernels wheel have what the tree wants of it? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from patchset.kernels.calls import Place, Reach, Wanted
from patchset.kernels.finding import Finding, Verdict
from patchset.kernels.ops import Op
from patchset.kernels.read import Contents
from patchset.kernels.schema import refusal

#: Namespaces that only the kernels of this platform register; others (``_C``) are CUDA's and the CPU's as well.
_OWN = frozenset({"_xpu_C"})


def operators(found: Contents, wanted: Wanted) -> Iterator[Finding]:
    """Is every operator registered that the tree calls where only XPU comes?"""
    known = {op.name for op in found.ops}
    spaces = {op.namespace for op in found.ops} | _OWN
    named = {f"{space}.{name}" for space, name in found.named}
    missing: dict[str, list[Place]] = {}
    unclear: dict[str, list[Place]] = {}
    for use in wanted.uses:
        name = f"{use.namespace}.{use.name}"
        if use.namespace in spaces and name not in known:
            (unclear if name in named else missing).setdefault(name, []).append(use.place)
    sure = {name: at for name, all in missing.items() if (at := [place for place in all if _is_certain(name, place)])}
    if sure:
        yield Finding(
            "operators",
            Verdict.BAD,
            f"called and not registered: {', '.join(sorted(sure))}",
            tuple(f"{name} {place}" for name in sorted(sure) for place in sure[name]),
            "take the kernels that the release asks for",
        )
    elif not found.ops:
        yield Finding("operators", Verdict.UNKNOWN, "no schema of an operator can be read from this wheel")
    else:
        count = len({f"{use.namespace}.{use.name}" for use in wanted.uses} & known)
        yield Finding(
            "operators",
            Verdict.GOOD,
            f"{count} of the {len(known)} registered are wanted, none that XPU needs is missing",
        )
    rest = {name: at for name, at in missing.items() if name not in sure}
    asked = sorted(name for name, at in rest.items() if any(p.guarded and _is_ours(name, p) for p in at))
    if asked:
        yield Finding(
            "operators asked for",
            Verdict.MIND,
            f"not registered; the tree asks first and goes another way: {', '.join(asked)}",
            tuple(f"{name} {place}" for name in asked for place in rest[name]),
        )
    others = sorted(set(rest) - set(asked))
    if others:
        text = f"{len(others)} more are named and not registered, none where only XPU comes: other platforms' kernels"
        yield Finding("operators of others", Verdict.GOOD, text, tuple(f"{name} {rest[name][0]}" for name in others))
    if unclear or wanted.dynamic or wanted.unread:
        parts = [f"{name} is registered without a schema text" for name in sorted(unclear)]
        parts += [f"a name made at run time, {place}" for place in wanted.dynamic if place.reach is not Reach.OTHER]
        parts += [f"{path} is no Python of this interpreter" for path in wanted.unread]
        if parts:
            yield Finding("operators not told", Verdict.UNKNOWN, "; ".join(parts))


def _is_ours(name: str, place: Place) -> bool:
    return place.reach is Reach.XPU or (name.partition(".")[0] in _OWN and place.reach is not Reach.OTHER)


def _is_certain(name: str, place: Place) -> bool:
    return _is_ours(name, place) and not place.guarded


def arguments(found: Contents, wanted: Wanted) -> Finding:
    """Do the calls that can be read fit the registered schemas?"""
    overloads: dict[str, list[Op]] = {}
    for op in found.ops:
        overloads.setdefault(op.name, []).append(op)
    compared = 0
    bad: list[str] = []
    doubtful: list[str] = []
    for use in wanted.uses:
        name = f"{use.namespace}.{use.name}"
        if not use.called or use.positional is None or name not in overloads or use.place.reach is Reach.OTHER:
            continue
        compared += 1
        why = [refusal(op.schema, use.positional, use.keywords) for op in overloads[name]]
        if all(why):
            (bad if _is_ours(name, use.place) else doubtful).append(f"{name} {use.place}: {why[0]}")
    if bad:
        text = f"{len(bad)} of {compared} calls do not fit the operator's schema: {'; '.join(bad)}"
        return Finding("arguments", Verdict.BAD, text, tuple(bad), "take the kernels that the release asks for")
    if doubtful:
        text = f"{len(doubtful)} of {compared} calls do not fit the schema, in code that other platforms share"
        return Finding("arguments", Verdict.MIND, f"{text}: if XPU comes there, it fails", tuple(doubtful))
    if not compared:
        return Finding("arguments", Verdict.UNKNOWN, "no call of a registered operator could be compared")
    return Finding("arguments", Verdict.GOOD, f"{compared} calls fit the operators' schemas")


def imports(found: Contents, wanted: Wanted) -> Finding:
    """Are the Python modules and names there that the tree imports?"""
    gone = [item for item in wanted.imports if not _has(found.modules, item.module, item.name)]
    sure = [item for item in gone if not item.place.guarded]
    places = tuple(f"{item.module}{'.' + item.name if item.name else ''} {item.place}" for item in (sure or gone))
    if sure:
        text = f"imported and not there: {', '.join(sorted({place.split(' ')[0] for place in places}))}"
        return Finding("imports", Verdict.BAD, text, places, "take the kernels that the release asks for")
    if gone:
        return Finding("imports", Verdict.MIND, "not there, and the tree goes on without: see places", places)
    return Finding("imports", Verdict.GOOD, f"{len(wanted.imports)} imports of the kernels' Python are there")


def _has(modules: Mapping[str, tuple[str, ...]], module: str, name: str) -> bool:
    if module not in modules:
        return False
    return not name or name in modules[module] or "*" in modules[module] or f"{module}.{name}" in modules or name == "*"
