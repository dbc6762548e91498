"""The task about gates, thin as those in tasks.py: a server is measured, or results are judged and compared."""

from __future__ import annotations

from typing import Any

from invoke import Context, task
from invoke.parser import Argument
from invoke.tasks import Task

from patchset.cli import WORKSPACE, help_for, number, reporting, whole
from patchset.errors import DeclarationError

#: What can be done → how many files it is done with.
FILES = {"bringup": 0, "baseline": 0, "promote": 0, "ladder": 0, "check": 1, "compare": 2}


class _What(Argument):
    """The first word of the task, which decides how many files follow it."""

    files: tuple[Argument, ...] = ()

    def set_value(self, value: Any, cast: bool = True) -> None:
        """Take the word; those files that do not follow it are not waited for."""
        super().set_value(value, cast)
        for one in self.files[FILES.get(value, 0) :]:
            one.set_value("", cast=False)


class GateTask(Task[Any]):
    """A task with files behind its first word: Invoke itself knows none that may be absent."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Those of the function, with the first of a kind of its own."""
        first, *others = super().get_arguments(ignore_unknown_help)
        what = _What(names=first.names, kind=first.kind, help=first.help, positional=True, attr_name=first.attr_name)
        what.files = tuple(one for one in others if one.positional)
        return [what, *others]


@task(
    klass=GateTask,
    auto_shortflags=False,
    positional=["what", "file", "other"],
    help=help_for(
        "json",
        what="bringup, baseline, promote, ladder; or check FILE, compare FILE OTHER",
        file="check, compare: a result",
        other="compare: the result to compare it with",
        url="the server's address",
        model="the id that /v1/models lists",
        revision="of the model (default: the server's own --revision, where its process can be seen)",
        quantisation="of the model (default: the server's own --quantization)",
        pid="the server's process (default: what listens at that port, on this machine)",
        server_log="the file that the server logs to",
        receipt="the receipt of the runtime that is served",
        runtime="the id of that runtime",
        prompts="a file of prompts (default: the gate's own set)",
        concurrency="ladder: how many requests at once, rung by rung",
        max_tokens="tokens of an answer at most (default: as the prompts say)",
        timeout="seconds for one request",
        variable="compare: the one thing in which the two may differ",
        out="the result's file, or a folder for it (default: dist/gates)",
        html="also write the result there: one page that needs nothing else",
    ),
)
def gate(
    _: Context,
    what: str,
    file: str | None = None,
    other: str | None = None,
    url: str = "http://127.0.0.1:8000",
    model: str = "",
    revision: str = "",
    quantisation: str = "",
    pid: str = "0",
    server_log: str = "",
    receipt: str = "",
    runtime: str = "",
    prompts: str = "",
    concurrency: str = "1,2,4,8,16",
    max_tokens: str = "0",
    timeout: str = "300",
    variable: str = "",
    out: str = "",
    html: str = "",
    json: bool = False,
) -> None:
    """Measure a server, and judge what was measured: is it fit to serve?"""
    with reporting(json) as console:
        from patchset.gates import run, run_gate, run_plan

        if what == "check":
            run_gate.check(file or "", console, html=html)
        elif what == "compare":
            run_gate.compare(file or "", other or "", console, variable=variable, html=html)
        elif what in FILES:
            wanted = run.Wanted(
                what,
                url,
                model,
                revision=revision,
                quantisation=quantisation,
                pid=whole("--pid", pid),
                log=server_log,
                receipt=receipt,
                runtime=runtime,
                prompts=prompts,
                rungs=run_plan.rungs_of(concurrency),
                most=whole("--max-tokens", max_tokens),
                timeout=number("--timeout", timeout),
            )
            run_gate.gate(WORKSPACE, wanted, console, out=out, html=html)
        else:
            raise DeclarationError(f"there is no gate {what}", next=f"./inv gate {'|'.join(FILES)}")
