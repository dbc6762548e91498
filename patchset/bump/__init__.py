"""A recipe carried to another release: ``carry`` moves one patch, ``way`` the series, ``stop`` asks a person, whose answer
``resolved`` reads.

``flow`` has the commands, ``state`` what is remembered between them, ``judge`` whether a result holds, ``resolutions`` how
conflicts were resolved before, ``declare`` what is written.
"""

from patchset.bump.flow import Bumped, Stopped, abort, go_on, new_name, restart, skip, start, status

__all__ = ["Bumped", "Stopped", "abort", "go_on", "new_name", "restart", "skip", "start", "status"]
