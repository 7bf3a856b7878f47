"""The flags of `tiltyard jobs`, made from the dataclasses of the jobs' options, and a session for a
job."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from tiltyard.cli import arguments, spark
from tiltyard.cli.arguments import duration
from tiltyard.cli.call import Call
from tiltyard.cli.failures import UsageError
from tiltyard.cli.options import parse_pairs
from tiltyard.cli.terminal import bar
from tiltyard.job_options import FLAG, LEAST, Duration, Flag, JobOptions, JobProgress, Name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = Callable[..., None]


def with_job_flags(command: Command) -> Command:
    """Let a command take flags in place of each parameter that is annotated with a dataclass of
    options; it gets that dataclass, made of what was typed."""
    call, *own = inspect.signature(command, eval_str=True).parameters.values()
    jobs = {
        parameter.name: parameter.annotation
        for parameter in own
        if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, JobOptions)
    }
    flags = {name: list(_flags(job)) for name, job in jobs.items()}

    @functools.wraps(command)
    def run(call: Call, **given: Any) -> None:
        for name, job in jobs.items():
            values = {flag.name: flag.value(given.pop(flag.parameter_name)) for flag in flags[name]}
            given[name] = job(**values)
        command(call, **given)

    parameters = [call]
    for parameter in own:
        if parameter.name in jobs:
            parameters += [flag.parameter for flag in flags[parameter.name]]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


class _JobFlag:
    """One option of a job as a flag or an argument."""

    def __init__(self, option: Field[Any], hint: Any) -> None:
        self.name = option.name
        # A parameter of the name of a shared option, like `format`, would hide it.
        self.parameter_name = f"job_{option.name}"
        self._flag: Flag = option.metadata[FLAG]
        self._shown = self._flag.name or f"--{self.name.replace('_', '-')}"
        self._hint = hint
        self._least = option.metadata.get(LEAST)
        self._default = option.default
        if self._flag.command_default is not None:
            self._default = self._flag.command_default
        elif option.default_factory is not MISSING:
            self._default = None

    @property
    def parameter(self) -> inspect.Parameter:
        """The parameter by which typer makes it."""
        shown: dict[str, Any] = {"help": self._flag.help, "metavar": self._flag.metavar}
        if self._flag.is_argument:
            info = typer.Argument(**shown)
        else:
            shows = self._flag.shows_default
            info = typer.Option(self._shown, min=self._least, show_default=shows, **shown)
        return inspect.Parameter(
            self.parameter_name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if self._default is MISSING else self._default,
            annotation=Annotated[self._typed, info],
        )

    @property
    def _typed(self) -> Any:
        """The type of what is typed."""
        if self._hint in (Duration | None, Name | None):
            return str | None
        if self._is_mapping or self._hint == Sequence[Name] | None:
            return list[str] | None
        return self._hint

    @property
    def _is_mapping(self) -> bool:
        return get_origin(self._hint) is Mapping

    def value(self, typed: Any) -> Any:
        """The option's value, from what was typed. UsageError names the flag."""
        if self._hint == Duration | None:
            return duration(self._shown, typed)
        if self._is_mapping:
            pairs = parse_pairs(typed, self._shown)
            if get_args(self._hint)[1] is int:
                return {key: self._number(key, text) for key, text in pairs.items()}
            return pairs
        return None if typed == [] else typed

    def _number(self, key: str, text: str) -> int:
        if not text.isdecimal():
            raise UsageError(f"{self._shown} takes {self._flag.metavar}, not {key}={text}")
        return int(text)


def _flags(job: type[JobOptions]) -> Iterator[_JobFlag]:
    hints = get_type_hints(job)
    for option in fields(job):
        if FLAG in option.metadata:
            yield _JobFlag(option, hints[option.name])


@contextmanager
def running(
    call: Call, doing: str, master: str | None, shown: str
) -> Iterator[tuple[SparkSession, JobProgress | None]]:
    """A session for a job, and what the job reports its progress to, if it is shown."""
    with spark.running(call, doing, master) as session, bar(call, shown) as show:
        if show is None:
            yield session, None
        else:
            yield session, lambda done, total: show(done, total, f"{done} of {total}")


def check_names(
    call: Call, tables: Sequence[Name] | None = None, namespace: Name | None = None
) -> None:
    """Refuse bad names before Spark starts. Of several tables, a missing one has a row instead."""
    from lance_namespace import DescribeNamespaceRequest, TableExistsRequest

    if tables and namespace is not None:
        raise UsageError("name tables, or a namespace by --in", "and not both")
    parsed = arguments.parse_ids([str(table) for table in tables or ()])
    if namespace is not None:
        wanted = DescribeNamespaceRequest(id=arguments.parse_id(str(namespace)))
        call.catalog.describe_namespace(wanted)
    if len(parsed) == 1:
        call.catalog.table_exists(TableExistsRequest(id=parsed[0]))
