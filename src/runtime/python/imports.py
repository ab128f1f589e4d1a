"""Imports by the driver, and changes to modules that a program imports, made then and not before."""

import sys
from _frozen_importlib import _gcd_import
from _frozen_importlib_external import PathFinder

_path_at_start = list(sys.path)


def library(name):
    """Imports a module by the path as it was at start, lest a file of the user stands in for one that it needs."""
    theirs, sys.path[:] = sys.path[:], _path_at_start
    try:
        return _gcd_import(name)
    finally:
        sys.path[:] = theirs


class Patches:
    """A finder, put before the others: it finds what they find, for the few modules that it knows.

    `patches` maps names of modules to functions that take the module after it has run.
    """

    def __init__(self, patches):
        self._patches = patches
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        patch = self._patches.get(name)
        spec = patch and PathFinder.find_spec(name, path, target)
        if not spec or not hasattr(spec.loader, "exec_module"):
            return None
        loader = spec.loader

        def exec_module(module):
            del loader.exec_module
            loader.exec_module(module)
            try:
                patch(module)
            except Exception:
                pass  # it is another module of that name

        loader.exec_module = exec_module
        return spec

    def invalidate_caches(self):
        """The finders that do the work have the caches."""
