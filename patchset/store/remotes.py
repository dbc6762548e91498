"""Commits from other repositories, by whatever git can fetch from."""

from __future__ import annotations

import os
import re

from patchset.errors import SourceError
from patchset.store.git import FETCH, SECONDS_TO_ANSWER, last_line, without_password
from patchset.store.trees import Trees

_OBJECT_ID = re.compile(r"[0-9a-f]{40}\Z")


class Remotes(Trees):
    """What a store does with other repositories."""

    def resolve_remote(self, url: str, ref: str, *, timeout: float = SECONDS_TO_ANSWER) -> str:
        """The commit that *ref* (tag, branch, ``HEAD`` or a whole commit id) names at *url*.

        :raises SourceError: the host does not answer within *timeout* seconds, or knows no such ref.
        """
        if _OBJECT_ID.match(ref):
            return ref
        answer = self.attempt("ls-remote", "--", url, ref, f"refs/tags/{ref}^{{}}", timeout=timeout)
        if answer.status != 0:
            raise SourceError(
                f"cannot reach the git repository: {last_line(answer.err)}",
                where=without_password(url),
                next='check the URL and the network, or set source = "archive" in the recipe',
            )
        names = dict(reversed(line.split("\t", 1)) for line in answer.out.decode().splitlines())
        for candidate in (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}", ref):
            if candidate in names:
                return names[candidate]
        raise SourceError(
            f"no tag, branch or commit {ref!r} there",
            where=without_password(url),
            next="list what there is: git ls-remote URL",
        )

    def fetch_commit(self, url: str, ref_or_commit: str) -> str:
        """Bring one commit here (depth 1; blobs on demand where the server can), and return its id.

        *url* may be any git URL, a local path, or a bundle file. The remote is remembered in the store, since git asks
        it again for blobs that are needed later.

        :raises SourceError: it cannot be had.
        """
        if not _OBJECT_ID.match(ref_or_commit):
            ref_or_commit = self.resolve_remote(url, ref_or_commit)
        if os.path.isfile(url):
            self._fetch_bundle(url, ref_or_commit)
        else:
            remote = "from-" + re.sub(r"[^A-Za-z0-9]+", "-", without_password(url)).strip("-")[-80:]
            self.run("config", f"remote.{remote}.url", url)
            self.run("config", f"remote.{remote}.promisor", "true")
            self.run("config", f"remote.{remote}.partialclonefilter", "blob:none")
            answer = self.attempt(*FETCH, "--depth=1", "--filter=blob:none", remote, ref_or_commit)
            if answer.status != 0:
                raise SourceError(
                    f"cannot fetch {ref_or_commit}: {last_line(answer.err)}",
                    where=without_password(url),
                    next='check the URL and the network, or set source = "archive" in the recipe',
                )
        commit = self.run("rev-parse", "--verify", ref_or_commit + "^{commit}").decode().strip()
        self.keep(f"commits/{commit}", commit)
        return commit

    def _fetch_bundle(self, path: str, commit: str) -> None:
        heads = self.run("bundle", "list-heads", path).decode().split()[0::2]
        answer = self.attempt("bundle", "unbundle", path)
        if answer.status != 0 or not self.has_object(commit):
            raise SourceError(
                f"the bundle does not bring commit {commit} ({last_line(answer.err) or 'it holds ' + ', '.join(heads)})",
                where=path,
                next="make the bundle without prerequisites: git bundle create FILE TAG",
            )

    def complete(self, tree: str) -> None:
        """Fetch, in one go, the blobs of *tree* that a fetch with blobs on demand left out.

        The whole commit is fetched once more, without the filter: naming thousands of blobs one by one takes a
        minute where this takes seconds.

        :raises SourceError: they cannot be had.
        """
        if self.has_tree(tree):
            return
        commits = self.run("for-each-ref", "--format=%(objectname) %(tree)", "refs/commits").decode().split("\n")
        commit = next((line.split(" ")[0] for line in commits if line.endswith(tree)), None)
        remotes = self.attempt("config", "--get-regexp", r"^remote\..*\.url$").out.decode().splitlines()
        for line in remotes if commit else ():
            remote = line.split(" ", 1)[0].removeprefix("remote.").removesuffix(".url")
            answer = self.attempt(*FETCH, "--refetch", "--no-filter", "--depth=1", remote, str(commit))
            if answer.status == 0 and self.has_tree(tree):
                return
        raise SourceError(
            f"files of tree {tree} are not here, and no known repository gives them",
            next='check the network, or set source = "archive" in the recipe',
        )
