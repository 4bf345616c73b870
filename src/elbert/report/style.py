"""One look for all figures: Okabe and Ito's colours, and hatches and markers that say the same in greyscale."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbert.files import write_whole

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

BLUE, VERMILION, GREY, INK = "#0072B2", "#D55E00", "#8C8C8C", "#222222"
GROUP_COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", GREY)
GROUP_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++", "oo", "--")
GROUP_MARKERS = ("o", "s", "^", "D", "v", "P", "h", "X")
SERIES_LINES = ("-", "--", ":", "-.")

METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": "elbert"}}
"""By format: without dates, so that the same figure gives the same bytes."""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "elbert",
    "svg.fonttype": "path",
}


@contextmanager
def _drawn(draw: Callable[["Figure"], None], size: tuple[float, float], layout: Any = None) -> Iterator["Figure"]:
    """A figure of this size in inches that `draw` has filled, in the house style."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, dpi=100, layout=layout)
        FigureCanvasAgg(figure)
        draw(figure)
        yield figure


def figure_of(draw: Callable[["Figure"], None], size: tuple[float, float]) -> "Figure":
    """A figure that belongs to the caller and to no window; notebooks show it as a picture."""
    with _drawn(draw, size, "constrained") as figure:
        # Notebooks know pyplot's figures only, and pyplot would keep ours for ever.
        figure._repr_png_ = lambda: _as_bytes(figure, "png")  # pyright: ignore[reportAttributeAccessIssue]
        return figure


def draw_figure(draw: Callable[["Figure"], None], size: tuple[float, float], path: Path) -> list[Path]:
    """Write a figure as PNG and SVG under this path with suffixes; the same figure gives the same bytes."""
    written = []
    with _drawn(draw, size, "constrained") as figure:
        for kind in METADATA:
            written.append(path.with_name(f"{path.name}.{kind}"))
            write_whole(written[-1], _as_bytes(figure, kind))
    return written


def _as_bytes(figure: "Figure", kind: str) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=160, metadata=METADATA[kind])
    return buffer.getvalue()


def draw_pixels(draw: Callable[["Figure"], None], size: tuple[float, float]) -> "np.ndarray[Any, Any]":
    """A figure as an array of pixels, [height, width, 3] uint8."""
    import numpy as np

    with _drawn(draw, size) as figure:
        figure.canvas.draw()
        return np.array(figure.canvas.buffer_rgba())[..., :3].copy()  # pyright: ignore[reportAttributeAccessIssue]


def plain(text: str) -> str:
    """A text from data as a label: a dollar is no formula, and a legend leaves out what begins with an underscore."""
    return text.replace("$", r"\$") if not text.startswith("_") else "\u200b" + text.replace("$", r"\$")


def series_styles(labels: Sequence[str]) -> list[dict[str, Any]]:
    """The looks of several series. Where labels differ in one number only, as alpha does, colours follow its order."""
    styles = [series_style(i) for i in range(len(labels))]
    alike: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {}  # places and numbers of labels with the same words
    for i, label in enumerate(labels):
        parts = re.split(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", label)
        alike.setdefault(tuple(parts[::2]), []).append((i, parts[1::2]))
    largest = max(alike.values(), key=len, default=[])
    varying = [values for values in zip(*(numbers for _, numbers in largest), strict=True) if len(set(values)) > 1]
    if len(varying) == 1:
        import matplotlib as mpl

        values = [float(value) for value in varying[0]]
        order = sorted(set(values))
        for (i, _), value in zip(largest, values, strict=True):
            part = order.index(value) / (len(order) - 1)
            styles[i] |= {"color": mpl.colormaps["viridis"](0.82 * (1 - part))}  # from light to dark
    return styles


def series_style(i: int) -> dict[str, Any]:
    """Colour, line and marker of the i-th series: each tells them apart without the others."""
    return {
        "color": GROUP_COLOURS[i % len(GROUP_COLOURS)],
        "linestyle": SERIES_LINES[i % len(SERIES_LINES)],
        "marker": GROUP_MARKERS[i % len(GROUP_MARKERS)],
    }
