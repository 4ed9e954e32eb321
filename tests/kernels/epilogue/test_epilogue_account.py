from __future__ import annotations

from kernels.epilogue.account import add_relu_traffic, gelu_linear_traffic


def test_large_square_in_bfloat16_counts_what_the_formula_says() -> None:
    n = 8192

    traffic = gelu_linear_traffic(n, n, n, 2)

    assert traffic.fused_bytes == (3 * n * n + n) * 2
    assert traffic.eager_bytes == (9 * n * n + n) * 2


def test_equal_input_and_output_bytes_give_a_quarter() -> None:
    assert gelu_linear_traffic(77, 77, 38, 2).ratio == 0.25


def test_add_relu_moves_three_of_five_passes() -> None:
    traffic = add_relu_traffic(1000, 4)

    assert (traffic.fused_bytes, traffic.eager_bytes) == (12_000, 20_000)
    assert traffic.ratio == 0.6
