"""The options of the jobs: refused when they are wrong, and the same for function and command."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from tiltyard import job_options
from tiltyard.errors import InvalidInputError
from tiltyard.job_options import FLAG, JobOptions

JOBS = [
    value
    for value in vars(job_options).values()
    if inspect.isclass(value) and issubclass(value, JobOptions) and value is not JobOptions
]


@pytest.mark.parametrize(
    ("job", "option", "least"),
    [
        (job_options.OptimizeJob, "max_tasks", 1),
        (job_options.OptimizeJob, "split_above", 1),
        (job_options.CleanupJob, "max_bytes", 1),
        (job_options.IngestJob, "files_per_commit", 1),
        (job_options.ExportJob, "rows_per_file", 1),
        (job_options.SourceOptions, "max_rejects", 0),
    ],
)
def test_a_number_that_is_too_small_is_refused(job: Any, option: str, least: int) -> None:
    assert getattr(job(**{option: least}), option) == least
    with pytest.raises(InvalidInputError, match=f"{option} must be at least {least}"):
        job(**{option: least - 1})


@pytest.mark.parametrize(
    "options", [{"missing": "guess"}, {"extra": "add"}, {"delimiter": "||"}], ids=str
)
def test_wrong_options_of_a_source_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        job_options.SourceOptions(**options)


@pytest.mark.parametrize("job", JOBS)
def test_options_are_known_by_their_names_alone(job: type[JobOptions]) -> None:
    kinds = {parameter.kind for parameter in inspect.signature(job).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    shown = [option.metadata[FLAG] for option in fields(job) if FLAG in option.metadata]
    assert all(flag.help.endswith(".") for flag in shown)
