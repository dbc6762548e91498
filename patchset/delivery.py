"""What is delivered in ``dist/<version>``: the wheel with all that it says of itself, and what lies beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from patchset import receipt
from patchset.errors import WheelError
from patchset.proof import Exposure, Proof
from patchset.resolve import Project, Resolved
from patchset.store import Store
from patchset.wheel import BuiltWheel, Rooms, WheelRequest, environments, make_wheel, provenance, single_file
from patchset.wheel.bill import Bill, bill_of
from patchset.workspace import UNREADABLE, digest, sources_digest, write_atomically


@dataclass(frozen=True)
class Order:
    """A wheel that is asked for: ``request`` is what it is made of, ``bill`` what it is made from, ``key`` names both."""

    request: WheelRequest
    bill: Bill
    rooms: Rooms
    key: str


def order(
    project: Project,
    resolved: Resolved,
    store: Store,
    proofs: Sequence[Proof],
    omitted: Sequence[Exposure],
    scratch: Path,
    say: Callable[[str], None],
) -> Order:
    """What to make of *resolved*, in *scratch*; *say* is told what takes long and is done once."""
    workspace = project.workspace
    record = {
        "format": 2,
        "runtime": resolved.version,
        "recipe": resolved.recipe.name,
        "base": receipt.describe_base(resolved),
        "stack": dict(resolved.recipe.stack),
        "series": receipt.describe_series(proofs, reasons=False),
        "omitted": receipt.describe_omitted(omitted, reasons=False),
        "tree": resolved.applied.tree,
        "commit": resolved.applied.commit,
    }
    bill = bill_of(project, resolved, proofs, omitted, store)
    request = WheelRequest(
        store=store,
        base=resolved.base.tree,
        tree=resolved.applied.tree,
        release=resolved.release.version,
        version=resolved.version,
        epoch=int(resolved.release.date.timestamp()),
        record=record,
        rust=resolved.recipe.rust,
        sbom=partial(_bill_text, bill),
    )
    rooms = Rooms(
        workspace.cache / "bases",
        workspace.environments,
        scratch,
        workspace.logs / f"wheel-{resolved.version}.log",
        say,
    )
    here = Path(__file__).parent
    code = [sources_digest(here / name) for name in ("wheel", "verify")]
    return Order(request, bill, rooms, digest([record, asdict(bill), code, environments(), resolved.recipe.rust]))


def _bill_text(bill: Bill, native: Mapping[str, str]) -> bytes:
    from patchset.wheel import sbom  # a quarter of a second, for a wheel that is made only

    return sbom.document(bill, native)


def wheel_for(wanted: Order, cache: Path, *, fresh: bool = False, whole: bool = False) -> tuple[BuiltWheel, bool]:
    """The wheel of *wanted*: the one that was made of the very same, or a new one. True: it was there already.

    :param fresh: make it anew. :param whole: and by upstream's own build, even if it could be assembled.
    """
    kept = cache / "wheels" / wanted.key
    if not fresh and not whole:
        built = _kept_wheel(kept)
        if built:
            return built, True
    built = make_wheel(wanted.request, wanted.rooms, out=kept, whole=whole)
    write_atomically(kept / "built.json", json.dumps({**asdict(built), "path": built.path.name}, indent=1).encode())
    return built, False


def _kept_wheel(kept: Path) -> BuiltWheel | None:
    """The wheel that was kept, if it is still the bytes that were built."""
    try:
        data = json.loads((kept / "built.json").read_bytes())
        path = kept / data["path"]
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        built = BuiltWheel(**{**data, **lists, "path": path})
        return built if hashlib.sha256(path.read_bytes()).hexdigest() == built.sha256 else None
    except UNREADABLE:
        return None


def describe_wheel(built: BuiltWheel) -> dict[str, Any]:
    """The wheel for the receipt: everything but where it lay when it was built."""
    return {**{name: value for name, value in asdict(built).items() if name != "path"}, "name": built.path.name}


def publish(built: BuiltWheel, target: Path) -> Path:
    """Put the wheel, its sha256, the verifier and the smoke as one file each into *target*.

    A wheel of other bytes under that name is not replaced.

    :raises WheelError: there is one.
    """
    wheel = target / built.path.name
    if wheel.exists() and hashlib.sha256(wheel.read_bytes()).hexdigest() != built.sha256:
        raise WheelError(
            f"{wheel.name} is there already and is not what was built now",
            where=str(wheel),
            next=f"move {target} away, then ./inv runtime again",
        )
    write_atomically(wheel, built.path.read_bytes())
    write_atomically(target / f"{wheel.name}.sha256", f"{built.sha256}  {wheel.name}\n".encode())
    write_atomically(target / single_file.NAME, single_file.single_file())
    write_atomically(target / single_file.SMOKE, single_file.smoke_file())
    return wheel


def state(wanted: Order, wheel: Path, written: Path) -> Path:
    """Write the in-toto statement about *wheel* beside it, as the receipt *written* tells it, and return where."""
    data = provenance.statement(wanted.bill, written.read_bytes(), written.name, dict(environments()))
    path = wheel.with_name(provenance.file_name(wheel.name))
    write_atomically(path, data)
    return path
