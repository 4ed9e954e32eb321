from __future__ import annotations

from typing import Any

import pytest

from orchestrator.agent.environment import rocm_smi
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.tool_json import parse_json
from orchestrator.agent.environment.topology import link_class

from .conftest import fixture_files, fixture_text

DOCUMENTS = fixture_files("amd/rocm-smi-*.json")


def document(name: str) -> dict[str, Any]:
    return dict(parse_json(fixture_text(name)))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_card_of_every_release_is_read(name: str) -> None:
    whole = document(name)
    cards = rocm_smi.cards([whole])

    assert len(cards) == sum(key.startswith("card") for key in whole)
    for index, card in cards.items():
        found = rocm_smi.gpu_readings(index, card)
        assert set(found) <= set(GPU_KEYS)
        assert [(k, r.detail) for k, r in found.items() if r.state == "error"] == []
        assert found["pci_bus_id"].known
        assert found["memory_total"].value == int(card["VRAM Total Memory (B)"])
        assert found["clock_sm"].known
        assert found["temperature"].value == float(card["Temperature (Sensor junction) (C)"])
        assert found["power_draw_average"].known


def test_an_old_and_a_new_release_of_one_card() -> None:
    old = rocm_smi.gpu_readings(0, rocm_smi.cards([document("amd/rocm-smi-mi100_rocm571.json")])[0])
    new = rocm_smi.gpu_readings(0, rocm_smi.cards([document("amd/rocm-smi-mi100_rocm602.json")])[0])

    assert old["name"].value == new["name"].value == "Arcturus GL-XL [Instinct MI100]"
    assert (old["clock_sm"].value, old["clock_mem"].value) == (300, 1200)
    assert (old["pcie_generation"].value, new["pcie_generation"].value) == (3, 4)
    assert old["power_limit"].value == 290


def test_a_pci_id_is_not_taken_for_a_name() -> None:
    cards = rocm_smi.cards([document("amd/rocm-smi-rx6700xt_rocm430.json")])

    assert rocm_smi.gpu_readings(0, cards[0])["name"].state == "unknown"


def test_an_id_of_zeros_is_no_id() -> None:
    cards = rocm_smi.cards([document("amd/rocm-smi-vega-10-XT.json")])

    assert rocm_smi.gpu_readings(0, cards[0])["uuid"].state == "unknown"


def test_minus_one_in_an_unsigned_number_is_no_numa_node() -> None:
    found = rocm_smi.gpu_readings(0, {"(Topology) Numa Node": "4294967295"})

    assert found["numa_node"].state == "unknown"


def test_answers_of_single_flags_are_joined() -> None:
    parts = [
        {"card0": {"Unique ID": "0xabc"}},
        {"card0": {"GPU use (%)": "3"}, "card1": {"GPU use (%)": "N/A"}},
        {"system": {"Driver version": "6.3.6"}},
    ]

    cards = rocm_smi.cards(parts)

    assert rocm_smi.gpu_readings(0, cards[0])["utilization"].value == 3
    assert rocm_smi.gpu_readings(1, cards[1])["utilization"].state == "not_applicable"
    assert rocm_smi.driver_version(rocm_smi.system(parts)).value == "6.3.6"


def test_links_between_cards() -> None:
    links = rocm_smi.links(rocm_smi.system([document("amd/rocm-smi-vega-20-WKS-GL-XE.json")]))

    assert len(links) == 8
    assert links["GPU7"]["GPU0"] == links["GPU0"]["GPU7"] == "PCIE"
    assert link_class(links) == "uniform PCIE"


def test_numa_nodes_are_read_from_text_too() -> None:
    nodes = rocm_smi.parse_numa_text(fixture_text("amd/rocm-smi-showtoponuma-mi.txt"))

    assert [nodes[card].value for card in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("name", ["amd/rocm-smi-no-json.txt", "amd/rocm-smi-table-mi300x.txt"])
def test_text_in_the_place_of_json_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_json(fixture_text(name))
