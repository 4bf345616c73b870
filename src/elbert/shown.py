"""What the report room draws and shows. Rooms below it name its functions as text; they are imported when called."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from elbert.tables import Page


def named(place: str) -> Any:
    """The function that "module:function" names; its module is imported now."""
    module, _, function = place.partition(":")
    return getattr(import_module(module), function)


class Shown:
    """What can be drawn, and what notebooks show as tables."""

    drawn_by: ClassVar[str]  # "module:function" from this object and options to a figure
    page_by: ClassVar[str]  # "module:function" from this object to a page

    def plot(self, **options: Any) -> "Figure":
        """A matplotlib figure: notebooks show it, `figure.savefig("picture.png")` writes it."""
        return named(self.drawn_by)(self, **options)

    def to_html(self, path: "str | Path | None" = None) -> str:
        """A page that opens offline: the answer, pictures, tables, how it was made, and the result as JSON.

        Args:
            path: file to write it to as well, for example "page.html".
        """
        return named("elbert.report.web.subjects:page_of")(self, path)

    def _page(self) -> "Page":
        return named(self.page_by)(self)

    def _repr_html_(self) -> str:
        """For notebooks; text is escaped."""
        return named("elbert.report.notebooks:html")(self._page())
