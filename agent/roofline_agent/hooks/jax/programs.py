"""JAX: what is known of one compiled function: its executables by the shapes of its arguments, what a call of
each costs, on how many examples it works, and whether its results come back as its arguments."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Set, Tuple

from .. import Marker
from ..signals import raise_again
from .called import CalledFunction, JaxProgram
from .costs import NAMES, ProgramCost, cost_of, scanned_or_merged

# The calls of a function in which it is looked whether its results come back as arguments: so many, and later
# the 16th, 32nd, 64th, ... because a training may begin with calls whose results are not used.
LOOKS = 8
MOST_PROGRAMS = 64  # executables of one function that are told apart
LONGEST_PROBLEM = 120

Signature = Dict[Hashable, Hashable]  # argument -> types and shapes of what it holds
Path = Tuple[Tuple[str, Any], ...]  # ("item", key) or ("attribute", name) each


class _Array(NamedTuple):
    """What is known of an array that may be gone."""

    shape: Tuple[int, ...]
    dtype: Any
    sharding: Any


class JaxExecutable:
    """What JAX's Python has just compiled, or run because C++ cannot, in this thread."""

    def __init__(self, executable: Any, jaxpr: Any, arguments: Any) -> None:
        """jaxpr: the traced program; None if it is not known."""
        self.executable: Any = executable
        self._jaxpr: Callable[[], Any] = lambda: jaxpr
        # Not the arrays themselves: their memory on the device would stay taken. None: it was no array.
        self.arguments = [_described(one) if _is_array(one) else None for one in arguments]

    @property
    def jaxpr(self) -> Any:
        """The traced program; None if it is not known, or gone."""
        return self._jaxpr()

    def let_go(self) -> None:
        """Keep the program only as long as JAX does."""
        jaxpr, self.executable = self.jaxpr, None
        try:
            self._jaxpr = weakref.ref(jaxpr)
        except TypeError:  # there is none, or it knows no weak references
            self._jaxpr = lambda: None

    def cost(self, processes: int, mapped: bool) -> Tuple[ProgramCost, str]:
        """What a call costs this process, and on which platform. mapped: what was traced is the part of one
        device."""
        runtime: Any = getattr(self.executable, "xla_executable", None)
        try:
            devices = list(runtime.local_devices())
        except Exception:
            raise_again()
            devices = []
        try:
            analysis = self.executable.cost_analysis()
            if self.jaxpr is None and " while(" in (self.executable.as_text() or ""):
                analysis = None  # who knows how often
            accelerators = [one for one in devices if str(one.platform) != "cpu"]
            count = max(len(devices), 1)
            cost = cost_of(analysis, self.jaxpr, count, accelerators, 1 if mapped else count * processes)
        except Exception:
            raise_again()
            cost = ProgramCost(None, None, "", "XLA's cost analysis failed")
        return cost, str(devices[0].platform) if devices else ""


class JaxFunction:
    """A function that the training has compiled."""

    def __init__(self, jax: Any, marker: Marker, name: str, mapped: bool = False) -> None:
        """mapped: by pmap, over the first dimension."""
        self._jax, self._marker, self._mapped = jax, marker, mapped
        self.function = CalledFunction(name)
        self._known: List[Tuple[Signature, JaxProgram]] = []
        self._newest: Optional[JaxProgram] = None
        self._differing: Tuple[Hashable, ...] = ()  # arguments in which the known signatures differ
        self._programs: Dict[Hashable, JaxProgram] = {}  # by those
        # Until it is known which arguments are state.
        self._compiled: Dict[JaxProgram, JaxExecutable] = {}
        self._path: Optional[Path] = None  # to a small result
        self._results: List[Any] = []  # weakly, of the last call
        self._calls = 0  # until then
        self._state: Set[int] = set()  # which of the arrays among the arguments were results

    @property
    def known(self) -> bool:
        """Whether it was called before."""
        return self._newest is not None

    def look(self, args: Any, kwargs: Any) -> bool:
        """Before a call: whether its arguments are results of the one before; True only the first time."""
        if not self._results:
            return False
        results = {id(one) for one in [known() for known in self._results] if one is not None}
        self._results = []
        leaves = _arrays(self._jax, (args, kwargs))
        self._state = {at for at, leaf in enumerate(leaves) if id(leaf) in results}
        if not self._state:
            if self._calls >= LOOKS:
                for compiled in self._compiled.values():
                    compiled.let_go()
            return False
        self.function.feeds_back = True
        for program, compiled in self._compiled.items():
            program.examples = self._examples(compiled, self._state)
        self._compiled = {}
        return True

    def returned(
        self, compiled: Optional[JaxExecutable], args: Any, kwargs: Any, out: Any
    ) -> Optional[Tuple[JaxProgram, Any]]:
        """A call has returned `out`: its program, and an array that is ready when the call has ended. None if
        the call was a part of tracing another program. compiled: what was compiled for it."""
        program = self._newest
        if compiled is not None or program is None or self._path is None:
            if _is_traced(self._jax, out):
                return None
            if compiled is not None or program is None:
                program = self._learn(compiled, args, kwargs, out)
        elif self._differing:
            program = self._programs.get(self._key(args, kwargs), program)
        result = None if self._path is None else _at(out, self._path)
        if result is not None and not hasattr(result, "is_ready"):
            return None
        if not self.function.feeds_back:
            self._count_call(out)
        return program, result

    def _count_call(self, out: Any) -> None:
        """Prepare for the look at the next call, if that is due."""
        self._calls += 1
        if self._calls <= LOOKS or not self._calls & (self._calls - 1):
            self._results = [weakref.ref(one) for one in _arrays(self._jax, out)]

    def _learn(self, compiled: Optional[JaxExecutable], args: Any, kwargs: Any, out: Any) -> JaxProgram:
        """The program of a call with arguments of new shapes."""
        jax = self._jax
        if self._path is None:
            self._path = _small_result(jax, out)
        signature = {at: _shapes(jax, one) for at, one in [*enumerate(args), *kwargs.items()]}
        program = self._describe(compiled, signature)
        # The same shapes once more: on other devices. Its newest program holds.
        self._known = [one for one in self._known if one[0] != signature][-MOST_PROGRAMS:]
        self._known.append((signature, program))
        arguments = {at for one, _ in self._known for at in one}
        self._differing = tuple(at for at in arguments if len({one.get(at) for one, _ in self._known}) > 1)
        self._programs = {tuple(one.get(at) for at in self._differing): made for one, made in self._known}
        self._newest = program
        if compiled is None:
            pass
        elif self.function.feeds_back:
            program.examples = self._examples(compiled, self._state)
        elif len(self._compiled) < MOST_PROGRAMS:
            self._compiled[program] = compiled
            if self._calls >= LOOKS:
                compiled.let_go()
        return program

    def _key(self, args: Any, kwargs: Any) -> Hashable:
        """What tells the program of these arguments from the others."""
        given = {**dict(enumerate(args)), **kwargs}
        return tuple([_shapes(self._jax, given[at]) if at in given else None for at in self._differing])

    def _describe(self, compiled: Optional[JaxExecutable], signature: Signature) -> JaxProgram:
        function, marker = self.function, self._marker
        like = marker.like(("jax", id(self), tuple(signature.items())))
        if compiled is None:
            return JaxProgram(function, like=like)
        cost, platform = compiled.cost(self._jax.process_count(), self._mapped)
        kernel = marker.kernel(
            library="xla",
            operation=function.name[:64],
            precision=cost.precision,
            implementation=platform,
            problem=_problem(compiled.arguments),
            flops=cost.flops,
            bytes=cost.bytes,
            note=cost.note,
        )
        return JaxProgram(function, cost.flops, kernel, None, like)

    def _examples(self, compiled: JaxExecutable, state: Set[int]) -> Optional[int]:
        """The first dimension that all arguments have which are no state; None where they have not, or where
        it may be something else (a loop goes over it)."""
        arrays = [(place, one) for place, one in enumerate(compiled.arguments) if one is not None]
        data = [
            (place, one)
            for order, (place, one) in enumerate(arrays)
            if order not in state and one.shape and not _is_key(one)
        ]
        try:
            sizes, places = {self._first_dimension(one) for _, one in data}, [place for place, _ in data]
            if (
                len(sizes) == 1
                and compiled.jaxpr is not None
                and not scanned_or_merged(compiled.jaxpr, places)
            ):
                size: Optional[int] = sizes.pop()
                return size
        except Exception:  # arguments of another shape than JAX has now: not known
            raise_again()
        return None

    def _first_dimension(self, array: _Array) -> Any:
        """Of the part of an array that is in this process; None: not known."""
        shape = array.shape
        if self._mapped:
            return None if len(shape) < 2 else int(shape[0] * shape[1])
        if self._jax.process_count() == 1:
            return int(shape[0])
        if array.sharding is None:
            return None
        indices = array.sharding.addressable_devices_indices_map(shape).values()
        parts = {index[0].indices(shape[0]) for index in indices}
        return sum(end - begin for begin, end, _ in parts)


def _described(array: Any) -> _Array:
    return _Array(tuple(array.shape), array.dtype, getattr(array, "sharding", None))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_key(array: _Array) -> bool:
    """Whether it is a key of random numbers, as far as can be seen."""
    kind = str(array.dtype)
    return kind.startswith("key<") or (kind == "uint32" and array.shape in ((2,), (4,)))


def _arrays(jax: Any, tree: Any) -> List[Any]:
    return [leaf for leaf in jax.tree_util.tree_leaves(tree) if _is_array(leaf)]


def _shapes(jax: Any, value: Any) -> Any:
    """Shape and type of an argument: one program serves all arguments that have the same."""
    if _is_array(value):
        return (tuple(value.shape), str(value.dtype))
    leaves = jax.tree_util.tree_leaves(value)
    if len(leaves) == 1 and leaves[0] is value:  # a number, or a static argument
        return type(value) if isinstance(value, (float, complex)) else _hashable(value)
    return tuple([(tuple(leaf.shape), str(leaf.dtype)) if _is_array(leaf) else type(leaf) for leaf in leaves])


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return type(value)
    except Exception:
        raise_again()
        return type(value)
    return value


def _is_traced(jax: Any, out: Any) -> bool:
    """Whether a call was a part of tracing another program, so that it has computed nothing."""
    leaves = _arrays(jax, out)
    return not leaves or not all(hasattr(leaf, "is_ready") for leaf in leaves)


def _small_result(jax: Any, out: Any) -> Optional[Path]:
    """The way to the smallest array in it, which is easily kept; of several the last, which is less often
    given away to the next call."""
    flatten = getattr(jax.tree_util, "tree_flatten_with_path", None)
    if flatten is None:
        return None
    best: Optional[Tuple[int, Path]] = None
    for keys, leaf in flatten(out)[0]:
        path = []
        for key in keys:
            if hasattr(key, "idx"):
                path.append(("item", key.idx))
            elif type(key).__name__ == "DictKey":
                path.append(("item", key.key))
            elif hasattr(key, "name"):
                path.append(("attribute", key.name))
            else:
                break
        if len(path) == len(keys) and hasattr(leaf, "is_ready") and (best is None or leaf.size <= best[0]):
            best = leaf.size, tuple(path)
    return None if best is None else best[1]


def _at(out: Any, path: Path) -> Any:
    try:
        for how, key in path:
            out = out[key] if how == "item" else getattr(out, key)
        return out
    except Exception:
        raise_again()
        return None  # the training has changed what was returned: this step has no end of its own


def _problem(arguments: Any) -> str:
    """The types and shapes of the arguments, as far as there is room."""
    texts = []
    for one in arguments:
        if _is_array(one):
            kind = str(one.dtype)
            texts.append("%s[%s]" % (NAMES.get(kind, kind), ",".join(str(size) for size in one.shape)))
    text = " ".join(texts)
    return text if len(text) <= LONGEST_PROBLEM else text[: LONGEST_PROBLEM - 4] + " ..."
