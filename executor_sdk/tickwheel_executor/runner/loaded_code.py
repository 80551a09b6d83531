"""The handlers of a node, loaded in a pool process."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tickwheel_executor.handlers.handlers import Handler
from tickwheel_executor.handlers.hooks import Hooks
from tickwheel_executor.process.pool import PoolProcessReached
from tickwheel_executor.text import describe, traceback_of

from .process_wire import Setup


class CannotLoadError(Exception):
    """A handler of the node cannot be loaded in this process; `details` is a traceback."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


class LoadedCode:
    """The handlers and hooks that can run in this process."""

    def __init__(self, setup: Setup) -> None:
        sys.argv[:] = map(os.fsdecode, setup.argv)
        self._handlers: dict[str, Handler | CannotLoadError] = {}
        try:
            if setup.main_name is not None or setup.main_path is not None:
                _load_main(setup.main_name, setup.main_path)
            started, ended = pickle.loads(setup.hooks)  # noqa: S301 (written by our own node)
        except BaseException as error:  # noqa: BLE001 (the code of a script may raise anything)
            broken = _cannot_load("the script or a hook of its executor", error)
            self._handlers = dict.fromkeys(setup.handlers, broken)
            return
        hooks = Hooks(started=started, ended=ended)
        for name, pickled in setup.handlers.items():
            try:
                function = pickle.loads(pickled)  # noqa: S301 (the same)
                self._handlers[name] = handler = Handler(name, function, hooks=hooks)
                _ = handler.signature  # read it now, not in the first run
            except BaseException as error:  # noqa: BLE001 (so may that of a module)
                self._handlers[name] = _cannot_load(f"handler {name!r}", error)

    def handler(self, name: str) -> Handler:
        """The handler of that name.

        Raises:
            CannotLoadError: it could not be loaded.
        """
        found = self._handlers[name]
        if isinstance(found, CannotLoadError):
            raise found
        return found


def _cannot_load(what: str, error: BaseException) -> CannotLoadError:
    text = f"{what} could not be loaded in a process of its own: {describe(error)}"
    return CannotLoadError(text, traceback_of(error))


def _load_main(name: str | None, path: str | None) -> None:
    """Load the node's script as `__main__`, as multiprocessing does.

    Without a main guard it is executed up to the point where it would run the executor.
    """
    module = ModuleType("__mp_main__")
    code: CodeType | None
    if name is not None:
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        if spec is None or loader is None:
            raise ImportError(f"no module {name!r}")
        code = loader.get_code(name)
        module.__spec__, module.__package__, module.__file__ = spec, spec.parent, spec.origin
    else:
        assert path is not None  # noqa: S101 (one of the two is given)
        code = compile(Path(path).read_bytes(), path, "exec")
        module.__file__ = path
    if code is None:
        raise ImportError(f"no code of {name!r}")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 (the same script that the node runs)
    except PoolProcessReached:
        return
