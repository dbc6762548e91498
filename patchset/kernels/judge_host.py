"""Does a kernels wheel go with the torch and the runtime libraries that it is to run beside? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from patchset.kernels.beside import Torch
from patchset.kernels.finding import Finding, Verdict, Wish
from patchset.kernels.read import Contents


def torch_symbols(found: Contents, torch: Torch | None, wish: Wish) -> Iterator[Finding]:
    """Are torch's symbols that the objects cannot do without in the torch at hand? Another release of torch proves nothing."""
    if torch is None:
        why = "there is no torch to compare with: --torch DIR of the serving host, or ./inv probe, which makes the laboratory"
        yield Finding("torch's symbols", Verdict.UNKNOWN, f"not run: {why}")
        return
    wanted = {name: item.file for item in found.objects for name in item.torch}
    special = {name: item.file for item in found.objects for name in item.xpu}
    if torch.xpu:
        wanted, special = {**wanted, **special}, {}
    missing = sorted(set(wanted) - torch.exported)
    same = _public(torch.version) in _asked(wish.stack.get("torch", ""))
    beside = f"torch {torch.version or 'of unknown version'}"
    if not wanted:
        yield Finding("torch's symbols", Verdict.UNKNOWN, "no object wants any")
    elif missing:
        text = f"{len(missing)} of {len(wanted)} are not in {beside}: {', '.join(missing[:3])}{', …' if missing[3:] else ''}"
        more = "" if same or torch.given else f"; the recipe serves with {wish.stack.get('torch') or 'an unnamed one'}"
        verdict = Verdict.BAD if same or torch.given else Verdict.MIND
        places = tuple(f"{wanted[name]}: undefined symbol: {name}" for name in missing)
        yield Finding(
            "torch's symbols", verdict, text + more, places, "another build of torch, or kernels built for this one"
        )
    elif same or torch.given:
        yield Finding("torch's symbols", Verdict.GOOD, f"all {len(wanted)} are in {beside}")
    else:
        text = f"all {len(wanted)} are in {beside}, which is not the recipe's {wish.stack.get('torch') or '(none)'}"
        yield Finding("torch's symbols", Verdict.UNKNOWN, f"not compared with the right one: {text}")
    if special:
        why = f"{beside} here has no XPU libraries"
        yield Finding(
            "torch's XPU symbols",
            Verdict.UNKNOWN,
            f"not run: {len(special)} were compared with nothing: {why}",
            (),
            "--torch DIR of the serving host",
        )


def sycl(found: Contents, torch: Torch | None) -> Finding:
    """One SYCL runtime for all objects, and the same as torch's?"""
    wanted = sorted({name for item in found.objects for name in item.needed if name.startswith("libsycl.so")})
    if not wanted:
        return Finding("SYCL", Verdict.UNKNOWN, "no object needs libsycl")
    if len(wanted) > 1:
        places = tuple(f"{i.file} {n}" for i in found.objects for n in i.needed if n.startswith("libsycl.so"))
        return Finding(
            "SYCL", Verdict.BAD, f"objects of one wheel need {' and '.join(wanted)}", places, "another wheel"
        )
    if torch is None or not torch.sycl:
        why = "no torch" if torch is None else f"torch {torch.version} needs no SYCL"
        return Finding(
            "SYCL",
            Verdict.UNKNOWN,
            f"needs {wanted[0]}; not run: {why} to compare with",
            (),
            "--torch DIR of the serving host",
        )
    if set(torch.sycl) != set(wanted):
        text = (
            f"needs {wanted[0]}, and torch {torch.version} {' and '.join(torch.sycl)}: two SYCL runtimes in one process"
        )
        return Finding("SYCL", Verdict.BAD, text, (), "kernels and torch of one oneAPI release")
    return Finding("SYCL", Verdict.GOOD, f"{wanted[0]}, as torch {torch.version}")


def ccl(found: Contents, torch: Torch | None) -> Finding:
    """Does the wheel, or the host, hold a second copy of a runtime library?"""
    carried = list(found.bundled)
    needed = sorted({name for item in found.objects for name in item.needed if name.startswith("libccl.so")})
    if carried:
        return Finding("runtimes", Verdict.MIND, "the wheel carries runtime libraries of its own", tuple(carried))
    text = f"the wheel carries none of its own, and needs {', '.join(needed) or 'no oneCCL'}"
    if torch is None or not torch.given:
        return Finding("runtimes", Verdict.UNKNOWN, f"{text}; copies on the host: not run: no --torch DIR")
    twice = {name: folders for name, folders in torch.copies.items() if len(folders) > 1}
    if twice:
        places = tuple(f"{name} {folder}" for name, folders in twice.items() for folder in folders)
        return Finding("runtimes", Verdict.MIND, f"{text}; two copies of {' and '.join(twice)} on the host", places)
    return Finding("runtimes", Verdict.GOOD, f"{text}; the host has no second copy")


def _public(version: str) -> str:
    try:
        return Version(version).public
    except InvalidVersion:
        return ""


def _asked(specifier: str) -> set[str]:
    """The public versions that an exact specifier such as ``==2.13.0+xpu`` names."""
    return {_public(part.version) for part in SpecifierSet(specifier) if part.operator == "=="} - {""}
