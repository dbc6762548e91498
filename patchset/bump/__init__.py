"""A recipe carried to another release: ``carry`` moves one patch, ``flow`` the series, ``stop`` asks a person.

``state`` is what is remembered in between, ``resolutions`` how conflicts were resolved before, ``declare`` what is written.
"""

from patchset.bump.flow import Bumped, Stopped, abort, go_on, new_name, restart, skip, start, status

__all__ = ["Bumped", "Stopped", "abort", "go_on", "new_name", "restart", "skip", "start", "status"]
