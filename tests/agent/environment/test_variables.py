from __future__ import annotations

import json

from orchestrator.agent.environment import variables

PLANTED = {
    "HF_TOKEN": "hf_plantedplantedplanted",
    "AWS_SECRET_ACCESS_KEY": "planted-aws",
    "WANDB_API_KEY": "planted-wandb",
    # Allowed by their first word, secret by their last.
    "NCCL_AUTH_TOKEN": "planted-nccl",
    "CUDA_SECRET": "planted-cuda",
    "TORCH_HUB_PASSWORD": "planted-torch",
    "SLURM_JWT": "planted-slurm",
    "UNRELATED": "planted-unrelated",
}
HARMLESS = {
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NCCL_DEBUG": "INFO",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TRITON_CACHE_DIR": "/run/cache",
    "OMP_NUM_THREADS": "8",
    "TOKENIZERS_PARALLELISM": "false",
}


def test_allowed_variables_are_told() -> None:
    found = variables.readings(HARMLESS)

    assert {key: reading.value for key, reading in found.items()} == {
        f"env.{name}": value for name, value in HARMLESS.items()
    }


def test_no_planted_secret_gets_through() -> None:
    found = variables.readings({**PLANTED, **HARMLESS})

    told = json.dumps({key: [r.value, r.detail, r.source] for key, r in found.items()})
    assert "planted" not in told
    assert "env.UNRELATED" not in found


def test_an_allowed_name_that_looks_secret_is_told_without_its_value() -> None:
    reading = variables.readings(PLANTED)["env.CUDA_SECRET"]

    assert reading.state == "unknown"
    assert reading.detail == "withheld: the name looks like a secret's"


def test_a_secret_inside_an_allowed_value_is_taken_out() -> None:
    env = {"NCCL_CONF_FILE": "https://me:planted@host/nccl.conf", "CC": "hf_plantedplantedplanted"}

    values = [reading.value for reading in variables.readings(env).values()]

    assert "planted" not in " ".join(values)
