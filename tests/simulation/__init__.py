"""The explorer: it runs the code of `tiltyard.lifecycle` and `tiltyard.versions` under a scheduler
that owns every request, clock and random number, in every order, and asks after each step whether
anything was lost.

`python -m tests.simulation --report` searches all scenarios; `--replay` shows one schedule again.
"""
