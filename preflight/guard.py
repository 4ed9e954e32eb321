"""Run-time guards: pitfalls that no static rule can prove, caught while the program runs.

This one file stands alone: standard library only, Python 3.8 and newer, `torch` imported when a
guard is armed. The agent copies it to the host as `preflight_guard.py` and a `sitecustomize`
calls `activate_from_env()`; without `ORCH_GUARDS` in the environment that costs one dictionary
look-up.

    ORCH_GUARDS       comma list of: implicit-device, uninitialised-output, bench-input, sync, cache
    ORCH_GUARD_MODE   fail (default: exit status 86 when something was caught), report, or raise

Each guard is also a context manager, and `pytest --preflight-guards=...` runs tests under them.

What no guard sees: tensors made by C++ extensions or `from_numpy`, compiled regions, and threads
other than the one that armed it (PyTorch keeps the default device and function modes by thread).
"""

import atexit
import functools
import hashlib
import importlib.abc
import importlib.util
import os
import sys
import time
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

GUARD_EXIT = 86
VARIABLE = "ORCH_GUARDS"
MODE_VARIABLE = "ORCH_GUARD_MODE"

# The functions that PyTorch gives the default device to (torch.utils._device, compared in a test).
FACTORIES = frozenset(
    """
    empty empty_permuted empty_strided empty_quantized ones arange bartlett_window
    blackman_window eye fft_fftfreq fft_rfftfreq full hamming_window hann_window kaiser_window
    linspace logspace nested.nested_tensor rand randn randint randperm range sparse_coo_tensor
    sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor
    sparse_bsc_tensor tril_indices triu_indices zeros asarray tensor as_tensor scalar_tensor
    """.split()
)
_SHORT_FACTORIES = frozenset(name.rsplit(".", 1)[-1] for name in FACTORIES)
_HOST_DEVICES = frozenset(("cpu",))
_CACHE_VARIABLES = "TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR TORCH_EXTENSIONS_DIR CUDA_CACHE_PATH"


class GuardViolation(AssertionError):
    """A guard caught a pitfall, and its mode is `raise`."""


class Caught:
    """One thing a guard caught: where, how often, what follows, what to do next."""

    def __init__(self, guard: str, place: str, message: str, consequence: str, help: str) -> None:
        self.guard = guard
        self.place = place
        self.message = message
        self.consequence = consequence
        self.help = help
        self.count = 1

    def __str__(self) -> str:
        times = "" if self.count == 1 else " ({} times)".format(self.count)
        return "{}: error[{}] {}{}; {}; {}".format(
            self.place, self.guard, self.message, times, self.consequence, self.help
        )


class Guard:
    """A context manager that records what it catches; `mode` is fail, report or raise."""

    name = ""
    consequence = ""
    help = ""

    def __init__(self, mode: str = "report") -> None:
        self.mode = mode
        self._caught: Dict[Tuple[str, str], Caught] = {}

    @property
    def caught(self) -> List[Caught]:
        return list(self._caught.values())

    def catch(self, place: str, message: str) -> None:
        """Record one catch, or count it again. Raises GuardViolation in mode `raise`."""
        known = self._caught.get((place, message))
        if known is not None:
            known.count += 1
        else:
            self._caught[place, message] = Caught(
                self.name, place, message, self.consequence, self.help
            )
        if self.mode == "raise":
            raise GuardViolation(str(self._caught[place, message]))

    def __enter__(self) -> "Guard":
        self.arm()
        return self

    def __exit__(self, *_: Any) -> None:
        self.disarm()

    def arm(self) -> None:
        raise NotImplementedError

    def disarm(self) -> None:
        raise NotImplementedError


class _TensorNotes:
    """Notes on tensors by identity (their `==` is elementwise), gone when they are."""

    def __init__(self) -> None:
        self._notes: Dict[int, Tuple[Any, str]] = {}

    def put(self, tensor: Any, note: str) -> None:
        key = id(tensor)
        self._notes[key] = (weakref.ref(tensor, lambda _: self._notes.pop(key, None)), note)

    def get(self, tensor: Any) -> str:
        """The note, or an empty string."""
        reference, note = self._notes.get(id(tensor), (None, ""))
        return note if reference is not None and reference() is tensor else ""

    def drop(self, tensor: Any) -> None:
        self._notes.pop(id(tensor), None)


class _FunctionModeGuard(Guard):
    """A guard that sees every torch function call of its thread."""

    def __init__(self, mode: str = "report") -> None:
        super().__init__(mode)
        self._mode: Any = None

    def arm(self) -> None:
        import torch
        from torch.overrides import TorchFunctionMode

        guard = self
        # While torch.compile traces, the guard must be nothing but the call itself: a graph of its
        # own code would break, and `fullgraph=True` would fail because of the guard.
        tracing = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)

        class Mode(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                if tracing():
                    return func(*args, **(kwargs or {}))
                return guard.call(func, args, kwargs or {})

        self._mode = Mode()
        self._mode.__enter__()

    def disarm(self) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError


class ImplicitDeviceGuard(_FunctionModeGuard):
    """Pitfall 1: a factory without `device=` whose tensor does not land on the CPU.

    The default device is itself a function mode at the bottom of the stack which fills in `device`
    only when it is absent; this guard stands above it and sees the call as it was written.
    """

    name = "implicit-device"
    consequence = (
        "a default device decides where this tensor lives, and host tables end up on the GPU"
    )
    help = 'write `device="cpu"` (or the device that is meant) in this call'

    def __init__(self, mode: str = "report") -> None:
        super().__init__(mode)
        self._implicit = _TensorNotes()

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__setitem__":
            self._stored(args)
        elif "device" not in kwargs and name in _SHORT_FACTORIES:
            device = getattr(getattr(result, "device", None), "type", "cpu")
            given = name in ("as_tensor", "asarray", "tensor") and _is_device_tensor(args)
            if device not in _HOST_DEVICES and not given:
                self._implicit.put(result, name)
                self.catch(
                    _caller(),
                    "`torch.{}` without `device=` made a tensor on `{}`".format(name, device),
                )
        return result

    def _stored(self, args: Any) -> None:
        """`table[i] = value` into a tensor that landed on the GPU by default."""
        if len(args) > 1 and isinstance(args[1], int) and self._implicit.get(args[0]):
            self.catch(
                _caller(), "one element is stored into a tensor that a default device placed"
            )


class UninitialisedOutputGuard(_FunctionModeGuard):
    """Memory of `torch.empty` that is read before anything was written to it.

    Floats are filled with NaN. A tensor that is compared, copied to the host or printed while NaN
    is left from the filling is caught at that call, with the place where it was made.
    """

    name = "uninitialised-output"
    consequence = "the result holds whatever was in that memory, often last run's right answer"
    help = "write every element, or make the tensor with `torch.zeros`"
    _MAKERS = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "empty_permuted"))
    _READERS = frozenset(
        (
            "item",
            "tolist",
            "cpu",
            "numpy",
            "allclose",
            "equal",
            "isclose",
            "__repr__",
            "clone",
            "sum",
        )
    )

    def __init__(self, mode: str = "report") -> None:
        super().__init__(mode)
        self._made = _TensorNotes()

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(func, "__name__", "")
        if name in self._READERS:
            for tensor in args[:2]:
                self._check(tensor)
        result = func(*args, **kwargs)
        if name in self._MAKERS and _is_filled(result) and not _called_by_torch():
            result.fill_(float("nan"))
            self._made.put(result, _caller())
        return result

    def _check(self, tensor: Any) -> None:
        made = self._made.get(tensor)
        left = int(tensor.isnan().sum()) if made else 0
        if left:
            self._made.drop(tensor)
            text = "{} of {} elements were read and never written (made at {})"
            self.catch(_caller(), text.format(left, tensor.numel(), made))


class BenchInputGuard(Guard):
    """Constant floats as inputs of a benchmark: `triton.testing.do_bench`, or `check(a=a, b=b)`.

    Inputs are looked at after the timing, when outputs have been written: what is still constant
    then was an input, or the kernel wrote nothing.
    """

    name = "bench-input"
    consequence = (
        "constant operands flip fewer bits: the GPU draws less power, clocks higher, "
        "and looks faster"
    )
    help = "fill inputs with random numbers"
    _SAMPLE = 1 << 16

    def __init__(self, mode: str = "report") -> None:
        super().__init__(mode)
        self._undo: List[Callable[[], None]] = []

    def arm(self) -> None:
        testing = sys.modules.get("triton.testing")
        if testing is not None:
            for name in ("do_bench", "do_bench_cudagraph"):
                if hasattr(testing, name):
                    self._wrap(testing, name)
        else:
            self._undo.append(_when_imported("triton.testing", lambda _: self.arm()))

    def disarm(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _wrap(self, module: Any, name: str) -> None:
        original = getattr(module, name)

        @functools.wraps(original)
        def timed(fn: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(fn, *args, **kwargs)
            self.check(**_closure_tensors(fn))
            return result

        setattr(module, name, timed)
        self._undo.append(lambda: setattr(module, name, original))

    def check(self, **tensors: Any) -> None:
        """Catch every float tensor of more than one element that holds a single value."""
        for name, tensor in sorted(tensors.items()):
            if not _is_filled(tensor) or tensor.numel() < 2:
                continue
            flat = tensor.detach().flatten()[: self._SAMPLE].float()
            low, high = float(flat.min()), float(flat.max())
            if low == high:
                self.catch(_caller(), "input `{}` is {:g} everywhere".format(name, low))


class SyncGuard(Guard):
    """A clock is read for the second time in a function while the GPU is still at work.

    The GPU itself is asked (`stream.query()`), so kernels of Triton and of extensions count too.
    """

    name = "sync"
    consequence = "the time is that of queueing the work and not of doing it"
    help = "call `torch.cuda.synchronize()` before the clock is read, or time with events"
    _CLOCKS = ("time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns")

    def __init__(self, mode: str = "report", pending: Optional[Callable[[], bool]] = None) -> None:
        super().__init__(mode)
        self._pending = pending or _gpu_is_working
        self._undo: List[Callable[[], None]] = []
        self._frames: Dict[int, int] = {}
        self._busy = False

    def arm(self) -> None:
        for name in self._CLOCKS:
            self._wrap(name)

    def disarm(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _wrap(self, name: str) -> None:
        original = getattr(time, name)

        @functools.wraps(original)
        def clock() -> Any:
            self._read(sys._getframe(1))
            return original()

        setattr(time, name, clock)
        self._undo.append(lambda: setattr(time, name, original))

    def _read(self, frame: Any) -> None:
        if self._busy or _is_library(frame.f_code.co_filename):
            return
        self._busy = True
        try:
            key = id(frame)
            line = frame.f_lineno
            earlier = self._frames.get(key)
            # A frame's address may be used again: only another line of the same code counts.
            if earlier is not None and earlier != line and self._pending():
                self.catch(
                    "{}:{}".format(frame.f_code.co_filename, line),
                    "the clock started on line {} is read while the GPU is still at work".format(
                        earlier
                    ),
                )
            if len(self._frames) > 4096:
                self._frames.clear()
            self._frames[key] = line
        finally:
            self._busy = False


class CacheGuard(Guard):
    """Pitfall 10: compiled kernels of an earlier run are where this run will look for its own."""

    name = "cache"
    consequence = "a binary of other sources, flags or hardware may be what runs"
    help = "run with fresh cache folders (`caches: isolated`), or clear them first"

    def arm(self) -> None:
        for variable in _CACHE_VARIABLES.split():
            folder = os.environ.get(variable)
            if not folder:
                continue
            count = sum(len(files) for _, _, files in os.walk(folder))
            if count:
                self.catch(
                    folder, "`{}` holds {} files from before this run".format(variable, count)
                )

    def disarm(self) -> None:
        return None


def content_key(sources: Iterable[str], flags: Iterable[str], compiler: str, arch: str) -> str:
    """A build key that holds the content: source bytes, flags, compiler, architecture.

    Raises OSError when a source cannot be read.
    """
    digest = hashlib.sha256()
    for word in (compiler, arch, *flags):
        digest.update(word.encode() + b"\0")
    for path in sorted(sources):
        with open(path, "rb") as stream:
            data = stream.read()
        digest.update(
            os.path.basename(path).encode() + b"\0" + str(len(data)).encode() + b"\0" + data
        )
    return digest.hexdigest()


GUARDS = {
    guard.name: guard
    for guard in (
        ImplicitDeviceGuard,
        UninitialisedOutputGuard,
        BenchInputGuard,
        SyncGuard,
        CacheGuard,
    )
}
_WITHOUT_TORCH = frozenset(("cache",))


class UnknownGuard(ValueError):
    """A guard was asked for that does not exist."""


def make_guards(names: Iterable[str], mode: str = "report") -> List[Guard]:
    """Guards by name, in the given order. Raises UnknownGuard."""
    found: List[Guard] = []
    for name in names:
        if name not in GUARDS:
            raise UnknownGuard(
                "there is no guard `{}`; the guards are {}".format(name, ", ".join(sorted(GUARDS)))
            )
        found.append(GUARDS[name](mode))  # type: ignore[abstract,unused-ignore]
    return found


def activate_from_env(environ: Optional[Dict[str, str]] = None) -> List[Guard]:
    """Arm the guards `ORCH_GUARDS` names: those that need torch, when the program imports torch.

    What was caught is told on stderr at exit. In mode `fail` the process then ends with status 86.
    Raises UnknownGuard: a guard that is misspelt must not look like one that caught nothing.
    """
    source = os.environ if environ is None else environ
    wanted = source.get(VARIABLE, "")
    if not wanted.strip():
        return []
    mode = source.get(MODE_VARIABLE, "fail")
    guards = make_guards((name.strip() for name in wanted.split(",") if name.strip()), mode)
    waiting = [guard for guard in guards if guard.name not in _WITHOUT_TORCH]
    for guard in guards:
        if guard.name in _WITHOUT_TORCH:
            guard.arm()
    if waiting:
        _when_imported("torch", lambda _: _arm(waiting))
    atexit.register(_tell, guards, mode)
    return guards


def _arm(guards: List[Guard]) -> None:
    for guard in guards:
        guard.arm()


def _tell(guards: List[Guard], mode: str) -> None:
    caught = [item for guard in guards for item in guard.caught]
    for guard in guards:
        guard.disarm()
    for item in caught:
        sys.stderr.write("preflight: {}\n".format(item))
    if caught and mode == "fail":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(GUARD_EXIT)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Lets a module be imported as usual, then calls back once."""

    def __init__(self, module: str, callback: Callable[[Any], Any]) -> None:
        self._module = module
        self._callback = callback

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self._module:
            return None
        self.remove()
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module
        callback = self._callback

        def exec_module(module: Any) -> None:
            run(module)
            callback(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _when_imported(module: str, callback: Callable[[Any], Any]) -> Callable[[], None]:
    """Call back after a module's import, or at once. Returns what takes that back."""
    if module in sys.modules:
        callback(sys.modules[module])
        return lambda: None
    finder = _AfterImport(module, callback)
    sys.meta_path.insert(0, finder)
    return finder.remove


_TORCH_FOLDERS: List[str] = []


def _caller() -> str:
    """`file:line` of the nearest frame outside torch and this file."""
    frame: Any = sys._getframe(1)
    while frame is not None and (_is_own(frame) or _is_torch(frame.f_code.co_filename)):
        frame = frame.f_back
    if frame is None:
        return "(unknown place)"
    return "{}:{}".format(frame.f_code.co_filename, frame.f_lineno)


def _called_by_torch() -> bool:
    """Whether torch itself made the call, for scratch memory of its own."""
    frame: Any = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    return frame is not None and _is_torch(frame.f_code.co_filename)


def _is_own(frame: Any) -> bool:
    return bool(frame.f_code.co_filename == __file__)


def _is_torch(filename: str) -> bool:
    if not _TORCH_FOLDERS:
        package = sys.modules.get("torch")
        _TORCH_FOLDERS.extend(getattr(package, "__path__", ()))
    return any(filename.startswith(folder + os.sep) for folder in _TORCH_FOLDERS)


def _is_library(filename: str) -> bool:
    """Whether code belongs to an installed package, the standard library, or no file at all."""
    return (
        filename.startswith("<")
        or "site-packages" in filename
        or filename.startswith(os.path.dirname(os.__file__) + os.sep)
    )


def _is_device_tensor(args: Any) -> bool:
    """`as_tensor(x)` of a tensor keeps that tensor's device: nobody's default decided."""
    return bool(args) and hasattr(args[0], "device")


def _is_filled(tensor: Any) -> bool:
    """A real float tensor: one with memory that can hold NaN."""
    return (
        hasattr(tensor, "is_floating_point")
        and tensor.is_floating_point()
        and tensor.device.type != "meta"
        and tensor.numel() > 0
    )


def _closure_tensors(fn: Any) -> Dict[str, Any]:
    """Tensors a benchmarked function closes over or was given by `functools.partial`, by name."""
    found: Dict[str, Any] = {}
    while isinstance(fn, functools.partial):
        found.update({"argument {}".format(i): value for i, value in enumerate(fn.args)})
        found.update(fn.keywords)
        fn = fn.func
    names = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(fn, "__closure__", None) or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # a name that is bound later
            continue
    return {name: value for name, value in found.items() if hasattr(value, "is_floating_point")}


def _gpu_is_working() -> bool:
    """Whether the stream has unfinished work; starts no CUDA, disturbs no capture."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return False
    if torch.cuda.is_current_stream_capturing():
        return False
    return not torch.cuda.current_stream().query()
