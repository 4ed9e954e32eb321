from __future__ import annotations

import math

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton has no build for this platform")
tl = pytest.importorskip("triton.language")

from kernels.backend import BACKEND, multiplies_e4m3  # noqa: E402
from kernels.e4m3 import decode, encode, operand, product  # noqa: E402

DEVICE = BACKEND.device
E4M3 = torch.float8_e4m3fn
LANES = 1 << 16


@triton.jit
def encoding_kernel(x_ptr, code_ptr, lanes: tl.constexpr):
    at = tl.program_id(0) * lanes + tl.arange(0, lanes)
    tl.store(code_ptr + at, encode(tl.load(x_ptr + at)))


@triton.jit
def decoding_kernel(code_ptr, x_ptr, lanes: tl.constexpr):
    at = tl.arange(0, lanes)
    tl.store(x_ptr + at, decode(tl.load(code_ptr + at)).to(tl.float32))


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, block: tl.constexpr, native: tl.constexpr):
    lane = tl.arange(0, block)
    at = lane[:, None] * block + lane[None, :]
    tl.store(out_ptr + at, product(tl.load(a_ptr + at), tl.load(b_ptr + at), native))


def encoded(x: torch.Tensor) -> torch.Tensor:
    padded = torch.zeros(-(-len(x) // LANES) * LANES, device=DEVICE)
    padded[: len(x)] = x
    codes = torch.full(padded.shape, 0xAA, dtype=torch.uint8, device=DEVICE)
    encoding_kernel[(len(padded) // LANES,)](padded, codes, lanes=LANES)
    return codes[: len(x)]


def test_every_code_has_the_value_that_torch_gives_it() -> None:
    codes = torch.arange(256, dtype=torch.uint8, device=DEVICE)
    values = torch.empty(256, device=DEVICE)

    decoding_kernel[(1,)](codes, values, lanes=256)

    assert torch.equal(values.isnan(), (codes & 0x7F) == 0x7F)
    torch.testing.assert_close(values, codes.view(E4M3).float(), rtol=0, atol=0, equal_nan=True)


def test_encoding_undoes_decoding() -> None:
    codes = torch.arange(256, dtype=torch.uint8, device=DEVICE)

    again = encoded(codes.view(E4M3).float())

    numbers = (codes & 0x7F) != 0x7F
    assert torch.equal(again[numbers], codes[numbers])


def test_encoding_rounds_ties_to_even_and_all_else_to_the_nearest() -> None:
    codes = torch.arange(0x7F, dtype=torch.uint8, device=DEVICE)
    steps = codes.view(E4M3).float()
    ties = (steps[:-1] + steps[1:]) / 2
    even = torch.where(codes[:-1] % 2 == 0, codes[:-1], codes[1:])

    below, exact, above = (
        encoded(torch.nextafter(ties, torch.full_like(ties, towards)))
        if towards is not None
        else encoded(ties)
        for towards in (0.0, None, math.inf)
    )

    assert torch.equal(exact, even)
    assert torch.equal(below, codes[:-1])
    assert torch.equal(above, codes[1:])
    assert torch.equal(encoded(-ties), even | 0x80)


def test_encoding_agrees_with_torch_over_all_magnitudes() -> None:
    patterns = torch.arange(0, 1 << 32, 65521, dtype=torch.int64).to(torch.int32)
    x = patterns.view(torch.float32).to(DEVICE)
    x = x[x.isfinite()]

    codes = encoded(x)

    assert torch.equal(codes, x.clamp(-448.0, 448.0).to(E4M3).view(torch.uint8))


def test_encoding_keeps_nan_and_stops_at_the_largest_value() -> None:
    x = torch.tensor([math.nan, -math.nan, 464.1, 1e30, math.inf, -math.inf], device=DEVICE)

    codes = encoded(x).tolist()

    assert [code & 0x7F for code in codes[:2]] == [0x7F, 0x7F]
    assert codes[2:] == [0x7E, 0x7E, 0x7E, 0xFE]


@pytest.mark.parametrize("native", [False, True])
def test_a_product_multiplies_values_not_codes(native: bool) -> None:
    if native and not multiplies_e4m3(torch.device(DEVICE)):
        pytest.skip("no products of e4m3 here: sm_89 or newer has them")
    a = torch.randn(64, 64, device=DEVICE).to(E4M3)
    b = torch.randn(64, 64, device=DEVICE).to(E4M3)
    out = torch.full((64, 64), math.nan, device=DEVICE)

    product_kernel[(1,)](
        operand(a, native=native), operand(b, native=native), out, block=64, native=native
    )

    # sm_90 adds with about 14 bits inside a product; widened operands are exact in float32.
    bound = 1e-3 if native else 1e-5
    torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=bound, atol=bound)
