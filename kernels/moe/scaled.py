"""8-bit floats with float32 scales as in DeepSeek-V3: the types, and their meaning in torch.

Weights have one scale for each 128 x 128 block, rows of activations one for each 128 columns. The
last block or group of a side that 128 does not divide is short. Source: DeepSeek-V3 technical
report (arXiv 2412.19437), section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

DTYPE = torch.float8_e4m3fn
BLOCK = 128
LARGEST = torch.finfo(DTYPE).max
SMALLEST_SCALE = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class BlockScaled:
    """Weights of E experts: element (e, n, k) is `values[e, n, k] * scales[e, n // 128, k // 128]`.

    Attributes:
        values: (E, N, K) float8_e4m3fn, any strides.
        scales: (E, ceil(N / 128), ceil(K / 128)) float32, any strides. The grid is that of the
            whole matrix: gate and up of w13 share a row of blocks where 128 does not divide I.

    Raises:
        ValueError: on construction, for shapes, dtypes or devices that do not belong together.
    """

    values: torch.Tensor
    scales: torch.Tensor

    def __post_init__(self) -> None:
        values, scales = self.values, self.scales
        if values.dtype != DTYPE or scales.dtype != torch.float32:
            raise ValueError(
                f"block-scaled weights are {DTYPE} with torch.float32 scales,"
                f" not {values.dtype} with {scales.dtype}"
            )
        if values.dim() != 3:
            raise ValueError(f"block-scaled weights are (E, N, K), not {tuple(values.shape)}")
        experts, rows, columns = values.shape
        expected = (experts, groups_of(rows), groups_of(columns))
        if tuple(scales.shape) != expected:
            raise ValueError(
                f"weights {tuple(values.shape)} need scales {expected}, one for each {BLOCK} x"
                f" {BLOCK} block; got {tuple(scales.shape)}"
            )
        if values.device != scales.device:
            raise ValueError(f"values lie on {values.device}, their scales on {scales.device}")

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    def expert(self, number: int, dtype: torch.dtype) -> torch.Tensor:
        """(N, K) weights of one expert, scales applied in `dtype`."""
        rows, columns = self.values.shape[1:]
        scales = self.scales[number].to(dtype)
        spread = scales.repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)
        return self.values[number].to(dtype) * spread[:, :columns]


@dataclass(frozen=True)
class GroupScaled:
    """Rows of activations: element (r, k) is `values[r, k] * scales[r, k // 128]`.

    Attributes:
        values: (R, K) float8_e4m3fn, contiguous.
        scales: (R, ceil(K / 128)) float32, contiguous.
    """

    values: torch.Tensor
    scales: torch.Tensor

    def dequantised(self, dtype: torch.dtype) -> torch.Tensor:
        """(R, K), scales applied in `dtype`."""
        spread = self.scales.to(dtype).repeat_interleave(BLOCK, 1)
        return self.values.to(dtype) * spread[:, : self.values.shape[1]]

    def poison(self) -> None:
        """Make every value and scale NaN, so that one nobody writes is seen."""
        self.values.view(torch.uint8).fill_(0x7F)
        self.scales.fill_(float("nan"))


Weights = torch.Tensor | BlockScaled


def groups_of(columns: int) -> int:
    return -(-columns // BLOCK)


def empty_groups(rows: int, columns: int, device: torch.device | str) -> GroupScaled:
    """Unwritten rows."""
    return GroupScaled(
        torch.empty(rows, columns, dtype=DTYPE, device=device),
        torch.empty(rows, groups_of(columns), dtype=torch.float32, device=device),
    )


def quantise_groups(rows: torch.Tensor) -> GroupScaled:
    """What the kernels make of (R, K) activations, bit for bit, from their float32 values."""
    count, columns = rows.shape
    padded = torch.zeros(count, groups_of(columns), BLOCK, device=rows.device)
    padded.view(count, -1)[:, :columns] = rows
    scales = _scales(padded.abs().where(~padded.isnan(), 0.0).amax(2))
    values = _rounded(padded / scales[:, :, None]).view(count, -1)[:, :columns]
    return GroupScaled(values.contiguous(), scales)


def quantise_blocks(weights: torch.Tensor) -> BlockScaled:
    """(E, N, K) weights as e4m3 with a scale of the largest magnitude / 448 for each block."""
    experts, rows, columns = weights.shape
    down, across = groups_of(rows), groups_of(columns)
    values = torch.empty(weights.shape, dtype=DTYPE, device=weights.device)
    scales = torch.empty(experts, down, across, device=weights.device)
    # One expert at a time: all of them in float32 would need four times the memory of the result.
    for number in range(experts):
        padded = torch.zeros(down * BLOCK, across * BLOCK, device=weights.device)
        padded[:rows, :columns] = weights[number]
        blocks = padded.view(down, BLOCK, across, BLOCK)
        scales[number] = _scales(blocks.abs().amax((1, 3)))
        blocks /= scales[number][:, None, :, None]
        values[number] = _rounded(padded)[:rows, :columns]
    return BlockScaled(values, scales)


def _scales(largest: torch.Tensor) -> torch.Tensor:
    # A number as divisor would be multiplied by its rounded inverse on a GPU: an ulp off, enough to
    # turn the ties of one value in a thousand the other way.
    scales = largest / largest.new_tensor(LARGEST)
    return torch.where(scales >= SMALLEST_SCALE, scales, 1.0)


def _rounded(quotients: torch.Tensor) -> torch.Tensor:
    # Releases of torch differ in what becomes of values past 448; there are none after clamping.
    return quotients.clamp(-LARGEST, LARGEST).to(DTYPE)
