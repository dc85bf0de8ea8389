"""JAX: sees each call of a function that the training compiles by jax.jit or jax.pmap, or ahead of time.

A call of a compiled function stays in C++, so what `jax.jit` returns is put into an object that passes
everything on (JittedFunction). What XLA compiled is seen where JAX's Python runs it for the first time.
"""

from __future__ import annotations

import atexit
import copy
import functools
import os
import sys
import threading
import time
import types
from typing import Any, Callable, Optional

from .. import Marker
from ..signals import raise_again
from .called import JaxCall
from .programs import JaxExecutable, JaxFunction
from .steps import JaxSteps, held
from .threads import OtherThread, SharedSteps

ORIGIN, CALLS = "_roofline_origin", "_roofline_calls"  # attributes of JAX's objects
# The wrapper sets all of these; a user sets one.
VERBOSE = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE", "ONEDNN_VERBOSE_TIMESTAMP")

_now = time.monotonic_ns
_identity = threading.get_ident


class _OfThread(threading.local):
    inside = False  # a compiled function is being called or traced
    compiled: Optional[JaxExecutable] = None
    other: Optional[OtherThread] = None  # while another one trains


class JaxWatch:
    """The calls of one process."""

    def __init__(self, jax: Any, marker: Marker) -> None:
        self.jax, self.marker = jax, marker
        self.steps = JaxSteps(marker)
        self.of_thread = _OfThread()
        self.thread = 0  # that trains; 0: not known; negative: that one does from its next call on
        self._called_ns = 0  # when it called last
        self._used: Any = SharedSteps(self.steps)  # until it is known
        self._silenced = False
        atexit.register(self._finish)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: what was called is its parent's."""
        self.thread, self._used = 0, SharedSteps(self.steps)
        self.steps.reset()

    def _finish(self) -> None:
        try:
            self.steps.finish(_now())
        except Exception:
            self.marker.failed("jax_calls")

    def read(self) -> None:
        """A result was read, if this is the thread that trains, or may be."""
        if self.steps.queue and self.thread in (0, _identity()):
            try:
                self._used.read(_now())
            except Exception:
                self.marker.failed("jax_calls")

    def call(
        self,
        function: JaxFunction,
        inner: Callable[..., Any],
        args: Any,
        kwargs: Any,
        compiled: Any = None,
    ) -> Any:
        """Call a compiled function. compiled: what is known of it before its first call."""
        thread = self.of_thread
        if thread.inside:
            return inner(*args, **kwargs)
        me = _identity()
        follows = not self.thread or self.thread == me or self._joins(me)
        begin = _now()
        thread.inside = True
        try:
            try:
                if follows:
                    self._called_ns = begin
                    self._used.begins(begin)
                if function.look(args, kwargs) and not self.thread:
                    self.thread, self._used = me, self.steps
            except Exception:
                self.marker.failed("jax_calls")
            out = inner(*args, **kwargs)
            try:
                compiled = compiled or thread.compiled
                found = function.returned(compiled, args, kwargs, out)
                if found is not None:
                    now = _now()
                    program, result = found
                    call = JaxCall(program, begin, now if compiled else begin, held(result))
                    if self.thread and self.thread != me:
                        self._called_in_other(call._replace(result=None), me)
                        return out
                    steps = self._used
                    steps.called(call, now)
                    if steps.waits() and result is not None:
                        result.block_until_ready()
                        steps.read(_now())
            except Exception:
                self.marker.failed("jax_calls")
            return out
        finally:
            thread.inside, thread.compiled = False, None

    def _called_in_other(self, call: JaxCall, me: int) -> None:
        """In another thread than the one that trains: it may train now."""
        other = self.of_thread.other
        if other is None:
            other = self.of_thread.other = OtherThread()
        if other.trains(call, self._called_ns, self.steps.election, self.thread):
            # The other may be at work with the steps: this one begins to be with its next call.
            self.thread = -me

    def _joins(self, me: int) -> bool:
        """Whether this thread is the one that trains from here on."""
        other = self.of_thread.other
        if self.thread != -me or other is None:
            return False
        self.thread, self.of_thread.other = me, None
        try:
            self.steps.move(other.calls, other.leads)
        except Exception:
            self.marker.failed("jax_calls")
        return True

    def silence(self) -> None:
        """XLA has oneDNN run a part of its matrix products: lines of it would seem to be all there were."""
        if not self._silenced:
            self._silenced = True
            if all(os.environ.get(name) == "1" for name in VERBOSE):
                for name in VERBOSE[:3]:
                    os.environ[name] = "0"


class JittedFunction:
    """A compiled function of JAX as it was, whose calls are seen."""

    # What is ours is not in __dict__, which functools.wraps copies into functions of the user's.
    __slots__ = ("__dict__", "__weakref__", "_roofline")

    def __init__(self, watch: JaxWatch, inner: Any, function: JaxFunction) -> None:
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__wrapped__"):
            if hasattr(inner, name):
                self.__dict__[name] = getattr(inner, name)
        self._roofline = watch, inner, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch, inner, function = self._roofline
        return watch.call(function, inner, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_roofline":  # before there is any
            raise AttributeError(name)
        return getattr(self._roofline[1], name)

    # Who asks whether it has these may look at its class only.

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        return self._roofline[1].lower(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        return self._roofline[1].trace(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        return self._roofline[1].eval_shape(*args, **kwargs)

    def clear_cache(self) -> Any:
        return self._roofline[1].clear_cache()

    @property
    def __class__(self) -> Any:
        return type(self._roofline[1])

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("__class__ assignment")

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A copy in another process, where these hooks may not be, is JAX's own.
        return self._roofline[1].__reduce_ex__(protocol)

    def __copy__(self) -> JittedFunction:
        watch, inner, function = self._roofline
        return JittedFunction(watch, copy.copy(inner), function)

    def __deepcopy__(self, memo: Any) -> JittedFunction:
        watch, inner, function = self._roofline
        return JittedFunction(watch, copy.deepcopy(inner, memo), function)

    def __repr__(self) -> str:
        return repr(self._roofline[1])


def patch(module: Any, marker: Marker) -> None:
    """module: jax."""
    watch = JaxWatch(module, marker)
    module.jit = _wrapping(watch, module.jit)
    if hasattr(module, "pmap"):
        module.pmap = _wrapping(watch, module.pmap, mapped=True)
    for watched in (_watch_compiler, _watch_ahead_of_time, _watch_reading):
        try:
            watched(watch)
        except Exception as error:  # another version of JAX; the rest is seen all the same
            raise_again()
            marker.fact(
                "jax.unseen." + watched.__name__.lstrip("_"), "%s: %s" % (type(error).__name__, error)
            )


def _wrapping(watch: JaxWatch, compile_: Any, mapped: bool = False) -> Any:
    """jax.jit or jax.pmap that returns functions whose calls are seen."""

    def made(fun: Any, inner: Any) -> Any:
        try:
            name = getattr(fun, "__name__", None) or type(fun).__name__
            return JittedFunction(watch, inner, JaxFunction(watch.jax, watch.marker, str(name), mapped))
        except Exception:
            watch.marker.failed("jax_calls")
            return inner

    @functools.wraps(compile_)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = compile_(*args, **kwargs)
        if args:
            return made(args[0], found)
        if "fun" in kwargs:
            return made(kwargs["fun"], found)
        # Without a function it is a decorator.
        return lambda fun: made(fun, found(fun))

    return wrapped


def _watch_compiler(watch: JaxWatch) -> None:
    pjit = sys.modules.get("jax._src.pjit")
    run = pjit._pjit_call_impl_python  # type: ignore[union-attr]

    @functools.wraps(run)
    def _pjit_call_impl_python(*args: Any, **kwargs: Any) -> Any:
        watch.silence()
        found = run(*args, **kwargs)
        try:
            if not watch.of_thread.inside:  # none of the training's functions: nobody would take it
                return found
            executable = next(one for one in found if hasattr(one, "xla_executable"))
            watch.of_thread.compiled = JaxExecutable(executable, kwargs.get("jaxpr"), args)
        except Exception:
            watch.marker.failed("jax_calls")
        return found

    pjit._pjit_call_impl_python = _pjit_call_impl_python  # type: ignore[union-attr]


def _watch_ahead_of_time(watch: JaxWatch) -> None:
    """Programs compiled by lower() and compile(): what they were made of goes with them."""
    stages = watch.jax.stages
    lower, compile_, call = stages.Traced.lower, stages.Lowered.compile, stages.Compiled.__call__

    @functools.wraps(lower)
    def lowered(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = lower(self, *args, **kwargs)
        try:
            _attach(found._lowering, self.jaxpr, self.fun_name)
        except Exception:
            watch.marker.failed("jax_calls")
        return found

    @functools.wraps(compile_)
    def compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = compile_(self, *args, **kwargs)
        try:
            _attach(found, *getattr(self._lowering, ORIGIN, (None, "compiled")))
        except Exception:
            watch.marker.failed("jax_calls")
        return found

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        jaxpr, name = getattr(self, ORIGIN, (None, "compiled"))
        calls = getattr(self, CALLS, None)
        if calls is None:
            calls = JaxFunction(watch.jax, watch.marker, str(name))
            try:
                setattr(self, CALLS, calls)
            except Exception:  # an object with slots: no two calls of it could be told to be of one
                watch.marker.failed("jax_calls")
                return call(self, *args, **kwargs)
        first = None
        try:
            if not calls.known:
                leaves = watch.jax.tree_util.tree_leaves((args, kwargs))
                first = JaxExecutable(getattr(self, "_executable", None), jaxpr, leaves)
        except Exception:
            watch.marker.failed("jax_calls")
        return watch.call(calls, functools.partial(call, self), args, kwargs, first)

    stages.Traced.lower, stages.Lowered.compile, stages.Compiled.__call__ = lowered, compiled, called


def _attach(holder: Any, jaxpr: Any, name: str) -> None:
    try:
        setattr(holder, ORIGIN, (jaxpr, name))
    except Exception:
        raise_again()  # else an object with slots: its program is called "compiled", and its cost is XLA's


def _watch_reading(watch: JaxWatch) -> None:
    """Where the training waits for results."""
    module = watch.jax
    wait = module.block_until_ready

    @functools.wraps(wait)
    def block_until_ready(*args: Any, **kwargs: Any) -> Any:
        found = wait(*args, **kwargs)
        watch.read()
        return found

    module.block_until_ready = block_until_ready
    array = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    value, block = getattr(array, "_value", None), getattr(array, "block_until_ready", None)
    if isinstance(value, property) and value.fget is not None:
        get = value.fget

        def _value(self: Any) -> Any:
            found = get(self)
            watch.read()
            return found

        array._value = property(functools.wraps(get)(_value))  # type: ignore[union-attr]
    if block is not None:

        def blocked(self: Any) -> Any:
            found = block(self)
            watch.read()
            return found

        blocked.__name__, blocked.__doc__ = "block_until_ready", getattr(block, "__doc__", None)
        array.block_until_ready = blocked  # type: ignore[union-attr]
