"""`pynvml` behind calls that always come back with a reading, whatever NVML does."""

from __future__ import annotations

from typing import Any, Callable

from orchestrator.agent.environment.field import Reading, error, known, not_applicable, unknown

SOURCE = "NVML"

# NVML return codes: what the device or library does not have, against what failed.
_NOT_SUPPORTED = (3, 22)
_NO_KNOWLEDGE = (4, 13, 21, 25, 26, 27)
# "Not available" in each unsigned type NVML uses.
NOTHING = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
NO_DATA = 21


def _same(value: Any) -> Any:
    return value


class Library:
    """One loaded `pynvml` module, or anything that looks like it."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def get(self, name: str, *arguments: Any, change: Callable[[Any], Any] = _same) -> Reading:
        """One call, its result changed to the snapshot's unit; a failure is a state with reason."""
        source = f"{SOURCE} {name}"
        function = getattr(self.module, name, None)
        if function is None:
            return unknown(source, "this version of pynvml does not know the call")
        try:
            answer = function(*arguments)
            if isinstance(answer, int) and not isinstance(answer, bool) and answer in NOTHING:
                return unknown(source, "NVML says that the value is not available")
            value = change(answer)
        except Exception as failure:  # noqa: BLE001  every kind of failure is the reading
            return self._failure(source, failure)
        return unknown(source, "NVML gave nothing") if value is None else known(value, source)

    def _failure(self, source: str, failure: Exception) -> Reading:
        code = getattr(failure, "value", None)
        text = str(failure) or repr(failure)
        if code in _NOT_SUPPORTED:
            return not_applicable(source, text)
        if code in _NO_KNOWLEDGE or type(failure).__name__ == "NVMLLibraryMismatchError":
            return unknown(source, text)
        return error(source, text if code is not None else repr(failure))

    def constant(self, name: str, default: int) -> int:
        return int(getattr(self.module, name, default))

    def field(self, device: Any, number: int, change: Callable[[Any], Any] = _same) -> Reading:
        """A value NVML offers by number only (nvmlDeviceGetFieldValues)."""
        return self.get(
            "nvmlDeviceGetFieldValues",
            device,
            [number],
            change=lambda answers: change(self._field_value(answers[0])),
        )

    def _field_value(self, answer: Any) -> Any:
        if answer.nvmlReturn != 0:
            kind = getattr(self.module, "NVMLError", None)
            text = str(kind(answer.nvmlReturn)) if kind else f"NVML error {answer.nvmlReturn}"
            raise _FieldError(answer.nvmlReturn, text)
        value = getattr(answer.value, _UNION_MEMBERS[answer.valueType])
        if value in NOTHING:
            raise _FieldError(NO_DATA, "NVML says that the value is not available")
        return value


_UNION_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class _FieldError(Exception):
    """NVML answered the call and refused the one field; `value` is its return code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.value = code
