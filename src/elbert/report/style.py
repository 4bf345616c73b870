"""One look for all figures: safe for colour-blind readers, readable in greyscale, the same everywhere.

The colours are those of Okabe and Ito's palette, chosen so that their lightness differs too; hatches and labels carry
the same information once more.
"""

from collections.abc import Callable
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


def draw_figure(draw: Callable[["Figure"], None], size: tuple[float, float], path: Path) -> list[Path]:
    """Draw with the house style and write PNG and SVG, each whole; the same figure gives the same bytes.

    `draw` fills an empty figure of this size in inches; suffixes are added to the path.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        written = []
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None, "Creator": "elbert"})):
            buffer = BytesIO()
            figure.savefig(buffer, format=suffix[1:], dpi=160, metadata=metadata)
            target = path.with_name(path.name + suffix)
            write_whole(target, buffer.getvalue())
            written.append(target)
    return written


def draw_pixels(draw: Callable[["Figure"], None], size: tuple[float, float], dpi: int = 100) -> "np.ndarray[Any, Any]":
    """Draw with the house style into an array of pixels, [height, width, 3] uint8."""
    import matplotlib as mpl
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, dpi=dpi)
        canvas = FigureCanvasAgg(figure)
        draw(figure)
        canvas.draw()
        return np.array(canvas.buffer_rgba())[..., :3].copy()


def series_style(i: int) -> dict[str, Any]:
    """Colour, line and marker of the i-th series: each tells them apart without the others."""
    return {
        "color": GROUP_COLOURS[i % len(GROUP_COLOURS)],
        "linestyle": SERIES_LINES[i % len(SERIES_LINES)],
        "marker": GROUP_MARKERS[i % len(GROUP_MARKERS)],
    }
