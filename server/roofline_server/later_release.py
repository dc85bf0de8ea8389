"""What is said of data that a later release has written."""

from __future__ import annotations

from . import __version__


def of_later_release(what: str, found: object, known: int, release: object = "") -> str:
    """Why data are refused that have a format which this release does not know. release: that wrote them."""
    by = f"roofline-server {release}" if release else "a later release"
    return (
        f"{what} has format {found} and was written by {by}; this roofline-server, {__version__}, reads "
        f"formats up to {known}. Nothing was changed: start that release or a later one, or use another "
        "--data"
    )
