"""Cases for the kernel that clears new blocks of the cache: real buffers, and their addresses in tables.

What it must give needs no reference of its own: the first words of each block named are zero, and nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchset.smoke.case import Array, Case, Subject, ints

#: From this release on, pages need not be a multiple of a program's words, and blocks may lie further apart.
PARTS_FROM = (0, 28, 0)


@dataclass(frozen=True)
class Segment:
    """One part of the cache that has *page* words of every block, *stride* words apart (0: one after the other)."""

    page: int
    stride: int = 0

    @property
    def step(self) -> int:
        """Words from one block to the next."""
        return self.stride or self.page


def zero_blocks(subject: Subject) -> list[Case]:
    """No block, one, many; blocks whose offset passes 2**31 words; pages of one program, several, and odd ones."""
    pages = (Segment(64), Segment(64), Segment(64))
    cases = [
        _zero(subject, "segments", pages, [3, 0, 7], 16),
        _zero(subject, "segments-signed", pages, [1, 2], 64, dtype=np.int64),
        _zero(subject, "one-word", (Segment(1),), [2], 1),
        _zero(subject, "one-segment-many-blocks", (Segment(8),), list(subject.rng.permutation(40)[:23]), 8),
        _zero(subject, "no-block", pages, [], 16, spare=4),
        _zero(subject, "spare-programs", (Segment(32),), [4], 8, spare=3),
        _zero(subject, "block-of-1024", (Segment(3 * 1024),), [1, 0], 1024),
        _zero(subject, "far-blocks", (Segment(512), Segment(512)), [5043 * 900, 5043 * 900 + 2], 512, first=5043 * 900),
    ]
    if subject.has("seg_page_sizes_ptr"):
        unlike = (Segment(64), Segment(16), Segment(48))
        cases.append(_zero(subject, "unlike-pages", unlike, [5, 1], 16))
    if subject.release >= PARTS_FROM:
        odd = (Segment(33, 40), Segment(7, 7), Segment(1, 3), Segment(16, 64))
        cases.append(_zero(subject, "odd-pages-apart", odd, [0, 6, 2], 16))
        wide = (Segment(100, 425_984),)
        cases.append(_zero(subject, "far-apart", wide, [5043], 128, first=5043))
    return cases


def _zero(
    subject: Subject,
    name: str,
    segments: tuple[Segment, ...],
    blocks: list[int],
    program: int,
    *,
    dtype: type = np.uint64,
    spare: int = 0,
    first: int = 0,
) -> Case:
    """:param first: the number of the first block that memory has; addresses are as if those before were there."""
    count = max((block - first for block in blocks), default=3) + 2
    memory, places = {}, []
    for index, segment in enumerate(segments):
        words = ints(subject.rng.integers(1, 2**31, count * segment.step if count > 2 else segment.page))
        cleared = words.copy()
        for block in blocks:
            at = (block - first) * segment.step
            cleared[at : at + segment.page] = 0
        memory[f"segment{index}"] = Array(words, cleared)
        places.append((f"segment{index}", -4 * first * segment.step))
    chunks = -(-max(segment.page for segment in segments) // program)
    arrays = {
        "seg_addrs_ptr": Array(np.zeros(len(segments), dtype), addresses=tuple(places)),
        "seg_block_strides_ptr": Array(ints([segment.step for segment in segments], np.int64)),
        "seg_page_sizes_ptr": Array(ints([segment.page for segment in segments], np.int64)),
        "block_ids_ptr": Array(ints(blocks, np.int64)),
    }
    scalars: dict[str, int | float | bool | None] = {
        "n_blocks": len(blocks),
        "N_SEGS": len(segments),
        "PAGE_SIZE_EL": segments[0].page,
        "MAX_CHUNKS": chunks,
        "BLOCK_SIZE": program,
    }
    flat = (len(blocks) * len(segments) * chunks + spare,)
    grid = flat if subject.has("n_blocks") else (len(blocks), len(segments), chunks)
    return Case(name, grid, arrays, scalars, memory)
