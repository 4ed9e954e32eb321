"""`compare:` in an experiment: how artifacts of two runs are compared, by path."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestrator.spec.model import Model
from orchestrator.spec.quantity import Fraction, Size, wrong
from orchestrator.spec.words import Count, Flag

ArtifactType = Literal[
    "text",
    "json",
    "yaml",
    "csv",
    "npy",
    "npz",
    "safetensors",
    "pt",
    "ptx",
    "sass",
    "kernels",
    "image",
    "trace",
    "bytes",
]
NanPolicy = Literal["equal", "different"]


class CompareRule(Model):
    """What counts as equal for the artifacts that a glob names; the first rule that fits holds."""

    path: Annotated[str, Field(min_length=1)]
    """A glob over the paths of a bundle, such as `steps/*/files/out/*.npy`."""
    type: ArtifactType | None = None
    """How to read them; found out from the content and the name when it is left out."""
    ignore: Flag = False
    """Do not compare these at all."""
    rel: Fraction | None = None
    """Relative tolerance of numbers."""
    abs: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Absolute tolerance of numbers."""
    rel_l2: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Tensors: largest relative L2 distance of the whole tensor."""
    ulp: Annotated[Count, Field(ge=0, lt=2**63)] | None = None
    """Tensors: largest distance in units in the last place."""
    nan: NanPolicy = "equal"
    """Whether NaN at the same place on both sides is a difference."""
    keys: tuple[str, ...] = ()
    """CSV: the columns that identify a row; JSON and YAML: the keys that identify an item."""
    columns: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default_factory=dict)
    """CSV: relative tolerance of single columns."""
    masks: tuple[str, ...] = ()
    """Text: regular expressions whose matches do not count, besides the built-in ones."""
    pixels: Fraction | None = None
    """Images: largest share of pixels that may differ."""
    max_bytes: Size = 4_000_000_000
    """Files larger than this are compared by hash alone."""

    @model_validator(mode="after")
    def _masks_are_patterns(self) -> CompareRule:
        for mask in self.masks:
            try:
                re.compile(mask)
            except re.error as error:
                what = f"the mask `{mask}` is no regular expression: {error}"
                raise wrong(what, "a pattern of Python's `re`") from error
        return self
