"""Figures of matplotlib, which itself knows nothing of clients. Nothing here imports it."""

import sys
from _io import BytesIO


def is_figure(value):
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(figure, type) and issubclass(type(value), figure)


def png(figure):
    image = BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    return image.getvalue()


def take_open(shown):
    """Closes the figures that pyplot holds, and returns those that have something on them, but for the one `shown`."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    taken = []
    for manager in helpers.Gcf.get_all_fig_managers() if helpers else ():
        helpers.Gcf.destroy(manager)
        figure = manager.canvas.figure
        filled = figure.axes or figure.lines or figure.texts or figure.images
        if filled and figure is not shown:
            taken.append(figure)
    return taken


def choose_backend(matplotlib):
    """Right after its import: spares it the search for a screen, unless the program or its settings have chosen."""
    if not isinstance(dict.__getitem__(matplotlib.rcParams, "backend"), str):
        matplotlib.rcParams["backend"] = "agg"
