"""A log in parts that Ray tasks read. What they find is added up here, to the bits of a single scan.

A Parquet file is cut into stretches of rows, a CSV file is one part. Every task gets a plan of polars, which names the
file and says what to compute, and gives back a small table.
"""

import io
import math
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import narwhals as nw
import polars as pl

from elbert.auditing.log_files import FILE_NAME, ROW_NUMBER, Log
from elbert.errors import InvalidInputError
from elbert.progress import Progress, Tell
from elbert.ray_cluster import ClusterError
from elbert.tables import visible

FEWEST_ROWS, MOST_ROWS = 500_000, 10_000_000
"""Rows of a part of a Parquet file: enough to be worth a task, and few enough for its memory."""
PARTS_PER_CORE = 3
RETRIES = 3
"""How often a task is started again whose worker or machine died."""


def refuse_what_is_no_file(log: Log) -> None:
    """Refuse a log that tasks cannot read by themselves, before Ray is started."""
    if not log.files:
        raise InvalidInputError(
            f"ray is given, and the log is no file: {log.name}. Ray tasks read files. Write the frame to Parquet, or "
            "leave ray out: DuckDB and Spark add up rows themselves."
        )
    if log.scan is None:
        raise InvalidInputError(
            f"ray is given, and not all of {log.name} is UTF-8. Save it as UTF-8 (in a spreadsheet: CSV UTF-8), or "
            "leave ray out."
        )


def in_parts(log: Log, ray: Any, tell: Tell) -> Log:
    """The log as parts that tasks read; its files must be at the same path on every machine."""
    scan, compute = log.scan, partial(_computed, ray, tell)
    assert scan is not None
    length = pl.len().cast(pl.Int64).alias("rows")
    sizes = [int(table.item()) for table in compute([scan([path.resolve()], 0).select(length) for path in log.files])]
    first = [0, *accumulate(sizes)]
    cores = ray.cluster_resources().get("CPU", 1)
    size = min(max(FEWEST_ROWS, math.ceil(first[-1] / (PARTS_PER_CORE * cores))), MOST_ROWS)
    parts = []
    for path, start, rows in zip(log.files, first, sizes, strict=False):
        # Tasks run in folders of their own; people know a file by the name that they gave.
        whole = scan([path.resolve()], start).with_columns(pl.lit(str(path)).alias(FILE_NAME))
        cuts = range(0, max(rows, 1), size)
        parts += [whole] if log.separator else [whole.slice(cut, size) for cut in cuts]
    places = pl.LazyFrame({ROW_NUMBER: first[:-1], FILE_NAME: [str(path) for path in log.files]})
    return replace(log, parts=tuple(map(nw.from_native, parts)), compute=compute, places=nw.from_native(places))


def _computed(ray: Any, tell: Tell, plans: Sequence[pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """What the plans come to, in their order, each computed by a task on one core."""
    task = ray.remote(_compute).options(
        num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": {"POLARS_MAX_THREADS": "1"}}
    )
    running = [task.remote(plan.serialize(), pl.__version__) for plan in plans]
    left = list(running)
    try:
        while left:
            tell(Progress("reading", len(running) - len(left), len(running), "parts"))
            found = ray.get(left[0])
            if isinstance(found, Exception):
                raise found
            yield found
            del left[0]
        tell(Progress("reading", len(running), len(running), "parts"))
    except ray.exceptions.RayError as error:
        reason = visible(str(error).strip().split("\n")[-1], 300)
        raise ClusterError(
            f"A Ray task could not be run, and was tried {RETRIES + 1} times if its worker died ({reason}). Every "
            "machine needs elbert in the same version as here, and memory for some millions of rows per core."
        ) from error
    finally:  # if somebody lost patience, or a part cannot be read, the others need not be
        for each in ray.wait(left, num_returns=len(left), timeout=0)[1] if left else ():
            ray.cancel(each)


def _compute(plan: bytes, version: str) -> pl.DataFrame | Exception:
    """What a task does. Mistakes in the data are given back: to try again would not help."""
    if version != pl.__version__:
        return ClusterError(
            f"Ray's machine {socket.gethostname()} has polars {pl.__version__}, and {version} is used here. Install "
            "the same version on both."
        )
    try:
        return pl.LazyFrame.deserialize(io.BytesIO(plan)).collect(engine="streaming")
    except FileNotFoundError as error:
        return ClusterError(
            f"Ray's machine {socket.gethostname()} does not have a file of the log ({visible(error, 200)}). Files must "
            "be at the same path on every machine, for example in a shared folder."
        )
    except (Exception, pl.exceptions.PanicException) as error:
        return RuntimeError(str(error))
