"""The page that a user names: theirs, in a module of theirs, or else ours. What is wrong stops with a sentence."""

from __future__ import annotations

import importlib
import sys

from fsm_loop.cli.stops import Status, Stop
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.errors import PageError


def page_of(spec: str | None) -> Page:
    """The page named by --page, as module:NAME; modules of the working directory can be imported.

    A page that breaks a rule of pages is never made: that is what a check is to find, so it stops with status 1.
    """
    if spec is None:
        return PAGE
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise Stop(f"--page {spec}: give a module and a page, as in my_machine:PAGE")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        page: object = importlib.import_module(module_name)
        for name in path.split("."):
            page = getattr(page, name)
    except PageError as error:
        raise Stop(f"--page {spec}: the page breaks a rule: {error}", Status.FAILED) from error
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        what = "there is no such module" if missing == module_name else f"it imports {missing}, which is not there"
        raise Stop(f"--page {spec}: {what}") from error
    except AttributeError as error:
        raise Stop(f"--page {spec}: {module_name} has no {path}: {_line(error)}") from error
    except Exception as error:  # whatever a user's module may raise
        raise Stop(f"--page {spec}: {module_name} cannot be imported: {_line(error)}") from error
    if not isinstance(page, Page):
        raise Stop(f"--page {spec}: it is {type(page).__name__}, not a Page; see fsm_loop.core.rows")
    return page


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
