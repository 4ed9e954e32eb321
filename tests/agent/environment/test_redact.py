from __future__ import annotations

import time

import pytest

from orchestrator.agent.environment.redact import MARK, looks_secret, redacted

from .conftest import FIXTURES, NO_FIXTURES, SLACK_S


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "SLURM_JWT_TOKEN",
        "GITHUB_PAT",
        "NCCL_AUTH",
        "CUDA_PRIVATE_KEY",
        "TRITON_SECRET",
        "SESSION_COOKIE",
        "my-api-key",
        "apikey",
        "MYTOKEN",
        "VLLM_API_KEY",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_CACHE_PATH",
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "TRITON_CACHE_AUTOTUNING",
        "PYTORCH_CUDA_ALLOC_CONF",
        "LD_LIBRARY_PATH",
        "PYTHONHASHSEED",
    ],
)
def test_harmless_names_are_not_taken_for_secrets(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("serve --api-key=abc123 --port 8000", f"serve --api-key={MARK} --port 8000"),
        ("serve --token abc123 model", f"serve --token {MARK} model"),
        ("PASSWORD=hunter2 python", f"PASSWORD={MARK} python"),
        ("https://user:hunter2@host/path", f"https://{MARK}@host/path"),
        ("python hf_abcdefghijklmnopqrstuv", f"python {MARK}"),
        ("<name>x --secret=s3cr3t</name>", f"<name>x --secret={MARK}</name>"),
    ],
)
def test_secrets_in_a_text_are_taken_out(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_ordinary_output_is_left_as_it_is() -> None:
    text = "GPU 0: NVIDIA H200 (UUID: GPU-11111111-2222)\n<pcie_gen>5</pcie_gen> key frames: 7"

    assert redacted(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "a.",
        "-a ",
        "a",
        "key=x ",
        "N/A\n",
        "://a:",
        "eyJ-",
        "sk-",
        " ",
        "--a   ",
        "a: ",
        "\x00=",
        "_key",
    ],
)
def test_no_output_however_strange_takes_long(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.monotonic()

    redacted(text)

    assert time.monotonic() - started < SLACK_S


def test_captured_outputs_are_stored_as_they_are() -> None:
    if FIXTURES is None:
        pytest.skip(NO_FIXTURES)
    tools = ("nvidia-smi", "nvidia-h200", "amd", "hygon", "jetson", "kernel-log")
    files = [path for tool in tools for path in (FIXTURES / tool).rglob("*") if path.is_file()]

    changed = [
        str(path)
        for path in files
        if (text := path.read_text("utf-8", "replace")) != redacted(text)
    ]

    assert len(files) > 90
    assert changed == []
