"""Answers for notebooks and scripts: each holds its plain record, and becomes DataFrames and pictures.

    connect(server).job("42").roofline(kind="hierarchical")    JobQuestions -> a Result
    result.record                       the plain record (roofline.answers)
    result.tables                       names of its tables, the first is the default
    result.to_pandas("points")          a DataFrame; units are in the columns' names and in `.attrs["units"]`
    result.plot()                       a matplotlib Figure; plot(ax=axes) draws on axes of yours
    print(result)                       what the command of the same name prints

docs/python.md explains all of it with an example.
"""

from .jobs import ComparisonResult, Jobs, ReportResult, StragglersResult, WhatIfResult
from .machines import Machines
from .models import BreakdownResult, RooflineResult, TimeRooflineResult, TrajectoryResult
from .pieces import ExportResult, StepsResult, TimelineResult
from .result import Result

__all__ = [
    "BreakdownResult",
    "ComparisonResult",
    "ExportResult",
    "Jobs",
    "Machines",
    "ReportResult",
    "Result",
    "RooflineResult",
    "StepsResult",
    "StragglersResult",
    "TimeRooflineResult",
    "TimelineResult",
    "TrajectoryResult",
    "WhatIfResult",
]
