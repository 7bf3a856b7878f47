"""Maintenance: a plan, its application, and the receipts, watched while they come."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.responses import Response

from tiltyard import names
from tiltyard.console.jobs import JOBS, Choices, Job, job
from tiltyard.console.runs import MOST_SHOWN, Run, Runs, Work
from tiltyard.console.visit import NotHere, Visit
from tiltyard.errors import InvalidInputError
from tiltyard.names import NamespaceId


class Maintenance:
    """The pages about runs, and the runs themselves."""

    def __init__(self) -> None:
        self._runs = Runs()

    async def show(self, visit: Visit) -> Response:
        jobs = [each for each in JOBS.values() if each.by_namespace or visit.sees_all]
        return visit.show("maintenance.html", jobs=jobs, runs=self._runs.recent(visit.principal))

    async def plan(self, visit: Visit) -> Response:
        """Begin to look at what there is to do."""
        chosen = job(visit.said("job"))
        choices = _choices(visit, chosen)
        where = f" in {names.dotted(choices.inside)}" if choices.inside else ""
        run = Run(chosen.key, f"{chosen.title}{where}", visit.principal.name, choices.inside)
        visit.target = run.title
        self._start(visit, run, partial(chosen.plan, visit.catalog, choices))
        return visit.go("run", id=run.id)

    async def apply(self, visit: Visit) -> Response:
        """Do what a plan says; what deletes is confirmed by how much it is."""
        plan = self._found(visit)
        result = plan.result
        if not plan.is_plan or result is None or result.apply is None:
            raise InvalidInputError("there is nothing to apply", hint="make a plan first")
        if job(plan.job).deletes and visit.said("typed") != str(result.going):
            raise InvalidInputError(
                "that is not how many they are, so nothing was done", hint=f"type {result.going}"
            )
        run = Run(plan.job, plan.title, visit.principal.name, plan.inside, applies=plan.id)
        visit.target = run.title
        self._start(visit, run, result.apply)
        return visit.go("run", id=run.id)

    async def run(self, visit: Visit) -> Response:
        run = self._found(visit)
        rows = list(run.result.rows) if run.result else []
        return visit.show(
            "run.html",
            run=run,
            job=job(run.job),
            rows=rows[:MOST_SHOWN],
            left=max(0, len(rows) - MOST_SHOWN),
        )

    def _found(self, visit: Visit) -> Run:
        run = self._runs.get(visit.said("id"), visit.principal)
        if run is None:
            raise NotHere("There is no such run. The server keeps the last ones.")
        return run

    def _start(self, visit: Visit, run: Run, work: Work) -> None:
        loop, note = asyncio.get_running_loop(), partial(_note, visit)

        def ended(run: Run) -> None:
            if not run.is_plan:
                loop.call_soon_threadsafe(note, run)

        self._runs.start(run, work, ended)


def _note(visit: Visit, run: Run) -> None:
    """One line of the audit for what a run did."""
    visit.note(run.job, run.title, run.error, 200 if run.error is None else 500)


def _choices(visit: Visit, chosen: Job) -> Choices:
    inside: NamespaceId = names.parse_namespace_id(names.parse_dotted(visit.said("in")))
    visit.principal.require_sight(inside if chosen.by_namespace else ())
    keep = visit.said("keep_versions") or "10"
    if not (keep.isascii() and keep.isdigit() and len(keep) < 10):
        raise InvalidInputError(f"{keep!r} is not a number of versions")
    return Choices(inside, int(keep), visit.said("older_than") or None)
