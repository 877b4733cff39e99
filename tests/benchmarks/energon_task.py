"""What Megatron-Energon needs to hand out crude samples: a cooker and a task encoder."""

from __future__ import annotations

from typing import Any

from megatron.energon import Cooker, DefaultTaskEncoder, Sample, basic_sample_keys, edataclass, stateless


@edataclass
class TextPair(Sample):
    """A sample of data T."""

    txt: bytes
    json: bytes


@stateless
def cook(sample: dict[str, Any]) -> TextPair:
    return TextPair(**basic_sample_keys(sample), txt=sample["txt"], json=sample["json"])


class ListBatches(DefaultTaskEncoder):
    """Leave parts as bytes and batches as lists."""

    decoder = None
    cookers = [Cooker(cook)]  # noqa: RUF012

    def batch(self, samples: list[TextPair]) -> list[TextPair]:
        return samples


@edataclass
class Record(Sample):
    """A record of a JSON Lines file."""

    json: dict[str, Any]


@stateless
def cook_record(sample: dict[str, Any]) -> Record:
    return Record(**basic_sample_keys(sample), json=sample["json"])


class Records(DefaultTaskEncoder):
    """Hand out records as they are."""

    decoder = None
    cookers = [Cooker(cook_record)]  # noqa: RUF012
