from __future__ import annotations

import pytest

from orchestrator.agent.environment import topology

from .conftest import answer, fixture_files, fixture_text

MATRICES = {
    "nvidia-smi/topo/2gpu-phb.txt": "uniform PHB",
    "nvidia-smi/topo/a100x8.txt": "uniform NV12",
    "nvidia-smi/topo/a100x8-10nic-tabs.txt": "uniform NV12",
    "nvidia-smi/topo/h100x8.txt": "uniform NV18",
    "nvidia-smi/topo/a10x4-2nic.txt": "uniform SYS",
    "nvidia-smi/topo/pcie-4090-a6000-x4-phb.txt": "uniform PHB",
    "nvidia-smi/topo/pcie-5090x2-4090x3.txt": "mixed NODE PHB SYS",
    "nvidia-smi/topo/pcie-5090x2-tabs.txt": "uniform PHB",
    "nvidia-smi/captures/h100-590/topo-m.txt": "single",
    "nvidia-smi/captures/h100-mig-590/topo-m.txt": "single",
    "nvidia-smi/captures/l40s-595/topo-m.txt": "single",
    "nvidia-h200/topo-m.txt": "single",
}
REFUSED = {
    "nvidia-smi/topo/p2p-rw-5090x2.txt": "no header",
    "nvidia-smi/captures/win-2080s-591/topo-m.txt": "ERROR: Option -m is missing its value",
}


@pytest.mark.parametrize(("name", "expected"), MATRICES.items())
def test_every_matrix_has_its_class(name: str, expected: str) -> None:
    matrix = topology.parse(fixture_text(name))

    assert topology.link_class(matrix.links) == expected


@pytest.mark.parametrize(("name", "said"), REFUSED.items())
def test_what_is_no_matrix_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        topology.parse(fixture_text(name))


@pytest.mark.parametrize(
    "name",
    fixture_files(
        "nvidia-smi/topo/*", "nvidia-smi/captures/*/topo-m.txt", "nvidia-h200/topo-m.txt"
    ),
)
def test_no_output_of_the_tool_is_left_untried(name: str) -> None:
    assert (name in MATRICES) != (name in REFUSED)


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_is_square_and_the_same_both_ways(name: str) -> None:
    links = topology.parse(fixture_text(name)).links

    for first, row in links.items():
        assert set(row) == set(links)
        assert row[first] == "X"
        assert all(links[second][first] == link for second, link in row.items())


def test_affinities_are_read_from_behind_the_links() -> None:
    matrix = topology.parse(fixture_text("nvidia-smi/topo/a100x8-10nic-tabs.txt"))

    assert matrix.cpu_affinity["GPU7"] == "80-95,208-223"
    assert matrix.numa_affinity["GPU2"] == "1"
    assert (matrix.nics["NIC9"], len(matrix.nics)) == ("mlx5_9", 10)
    assert matrix.links["GPU0"]["NIC0"] == "PXB"


def test_the_last_column_behind_two_tabs_does_not_move_the_others() -> None:
    matrix = topology.parse(fixture_text("nvidia-h200/topo-m.txt"))

    assert (matrix.cpu_affinity, matrix.numa_affinity) == ({"GPU0": "0-15"}, {"GPU0": "0"})


def test_an_affinity_that_is_not_available_is_left_out() -> None:
    matrix = topology.parse(fixture_text("nvidia-smi/topo/2gpu-phb.txt"))

    assert matrix.numa_affinity == {}
    assert topology.matrix_readings(matrix, "x")["topology.numa_affinity"].state == "unknown"


def test_a_gpu_without_cpus_near_it_keeps_its_other_columns() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t1\t\tN/A\n"

    matrix = topology.parse(text)

    assert (matrix.cpu_affinity, matrix.numa_affinity) == ({}, {"GPU0": "1"})


def test_a_matrix_with_a_missing_row_is_refused() -> None:
    text = fixture_text("nvidia-smi/topo/h100x8.txt")
    cut = "\n".join(line for line in text.splitlines() if not line.startswith("GPU5"))

    with pytest.raises(ValueError, match="no row for GPU5"):
        topology.parse(cut)


def test_a_row_cut_short_is_refused() -> None:
    text = fixture_text("nvidia-smi/topo/a100x8-10nic-tabs.txt").replace(
        "\tSYS\tSYS\tSYS\tSYS", "", 1
    )

    with pytest.raises(ValueError, match="row GPU0"):
        topology.parse(text)


@pytest.mark.parametrize("word", ["GNS", "OK", "N/A", "", "NV", "Unknown Error"])
def test_a_word_that_is_no_link_is_refused(word: str) -> None:
    text = f"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{word}\t0-3\nGPU1\t{word}\t X \t0-3\n"

    with pytest.raises(ValueError, match=f"row GPU0: `{word}` is no link"):
        topology.parse(text)


def test_each_key_tells_why_there_is_no_matrix() -> None:
    refused = topology.readings(answer("", "ended with exit status 255: ERROR: Option -m", 255))

    assert set(refused) == set(topology.KEYS)
    assert {reading.state for reading in refused.values()} == {"error"}
    assert topology.readings(None)["topology.class"].state == "unknown"
