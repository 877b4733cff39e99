from __future__ import annotations

import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from energon_nodes import testing
from energon_nodes.core.errors import DatasetError, FatalSampleError, ShardError, StateError
from energon_nodes.core.node import Node
from energon_nodes.core.share import Context
from energon_nodes.sources import read_ahead
from energon_nodes.sources.shards import shards
from tests.storage.tars import offsets_by_tarfile, prepare_by_hand, samples_of, write_tar

COUNT = 23


def write_folder(root: Path) -> Path:
    """Write 23 samples in three shards of unequal size."""
    for number, (first, last) in enumerate([(0, 9), (9, 10), (10, COUNT)]):
        write_tar(root / f"{number}.tar", samples_of(first, last))
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_by_hand(write_folder(tmp_path_factory.mktemp("prepared")), exclude=["2.tar/000012"])


def numbers(node: Node[dict[str, Any]]) -> list[int]:
    return [int(sample["__key__"]) for sample in node]


PIPELINES: dict[str, Callable[[Path, Path], Node[Any]]] = {
    "in order": lambda folder, prepared: shards(folder),
    "shuffled": lambda folder, prepared: shards(folder, shuffle=True, sequence_length=4),
    "globally shuffled": lambda folder, prepared: shards(folder, shuffle=True, sequence_length=1),
    "side by side": lambda folder, prepared: shards(folder, shuffle=True, sequence_length=3, parallel_sequences=3),
    "prepared, with an excluded sample": lambda folder, prepared: shards(prepared, shuffle=True, sequence_length=5),
    "a subset, some parts, one order": lambda folder, prepared: shards(
        folder, shuffle=True, subset=(0.1, 0.9), parts=["txt"], fixed_epoch=True, sequence_length=2
    ),
    "a seed of its own": lambda folder, prepared: shards(folder, shuffle=True, seed=5, sequence_length=2),
    "deep": lambda folder, prepared: (
        shards(folder, shuffle=True, sequence_length=3).shuffle(5).batch(2).repeat().epochize(9)
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_contract_holds(folder: Path, prepared: Path, name: str):
    make = PIPELINES[name]
    # Excluded samples count in the length, as the format has it.
    most = 48 if name == "shuffled" else 12
    lengths = "excluded" not in name
    testing.check_contract(lambda: make(folder, prepared), most=most, workers=False, lengths=lengths)


def test_samples_come_in_order_without_shuffle(folder: Path):
    assert numbers(shards(folder)) == list(range(COUNT))
    assert len(shards(folder)) == COUNT


def test_passes_differ_and_hold_every_sample_once(folder: Path):
    source = shards(folder, shuffle=True, sequence_length=2)
    passes = [numbers(source) for _ in range(3)]
    assert all(sorted(one) == list(range(COUNT)) for one in passes)
    assert passes[0] != passes[1] != passes[2]
    fixed = shards(folder, shuffle=True, sequence_length=2, fixed_epoch=True)
    assert numbers(fixed) == numbers(fixed) == passes[0]


def test_sequences_stay_together(folder: Path):
    found = numbers(shards(folder, shuffle=True, sequence_length=4))
    starts = [index for index in found if index % 4 == 0]
    assert found == [index for start in starts for index in range(start, min(start + 4, COUNT))]
    assert starts != sorted(starts)


def test_the_restore_key_is_pass_and_global_index(folder: Path):
    source = shards(folder, subset=(20, "end"))
    assert [key for _, key in source.with_keys()] == [(0, 20), (0, 21), (0, 22)]
    assert source.restore((5, 3))["__key__"] == "000003"
    assert [sample["__key__"] for sample in source.restore_many([(0, 22), (1, 0), (0, 22)])] == [
        "000022",
        "000000",
        "000022",
    ]
    with pytest.raises(IndexError):
        source.restore((0, COUNT))


def test_parts_can_be_named_or_tested(folder: Path):
    for parts in (["cls"], {"cls"}, ("cls", "more"), lambda part: part != "txt"):
        sample = next(shards(folder, parts=parts))
        assert sorted(sample) == ["__key__", "__shard__", "__sources__", "cls"]


def test_excluded_samples_are_left_out_and_counted(prepared: Path):
    source = shards(prepared)
    assert numbers(source) == [number for number in range(COUNT) if number != 12]
    assert len(source) == COUNT
    with pytest.raises(ShardError, match="excluded"):
        source.restore((0, 12))


def test_a_description_says_what_is_read(folder: Path):
    text = repr(shards(folder, shuffle=True, subset=(0.0, 0.5)))
    assert str(folder) in text
    for part in ("11 samples in 3 shards", "shuffle=True", "subset=(0.0, 0.5)"):
        assert part in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence_length": 0}, "sequence_length >= 1, got sequence_length=0"),
        ({"parallel_sequences": 0}, "parallel_sequences >= 1"),
        ({"sequence_length": 2.5}, "sequence_length >= 1"),
        ({"parts": "jpg"}, "collection of names"),
        ({"on_error": "ignore"}, "on_error"),
        ({"subset": (0.0, 2.0)}, "between 0.0 and 1.0"),
        ({"split": "train"}, "never prepared"),
    ],
)
def test_settings_out_of_range_are_refused_at_construction(folder: Path, options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        shards(folder, **options)


def test_clones_and_pickles_share_the_index(folder: Path):
    source: Any = shards(folder)
    assert source.clone().shard_set is source.shard_set
    assert pickle.loads(pickle.dumps(source)).shard_set.fingerprint == source.shard_set.fingerprint
    assert len(pickle.dumps(source)) < 1500


def test_a_state_of_other_data_is_refused_with_both_values(folder: Path, tmp_path: Path):
    source = shards(folder)
    next(source)
    other = shards(write_tar(tmp_path / "0.tar", samples_of(0, 5)))
    with pytest.raises(StateError, match="samples=23 where this pipeline has samples=5"):
        other.reset(source.state_dict())
    moved = write_folder(tmp_path / "moved")
    again = shards(moved)
    again.reset(source.state_dict())
    assert next(again)["__key__"] == "000001"
    os.rename(moved / "0.tar", moved / "00.tar")
    with pytest.raises(StateError, match="fingerprint"):
        shards(moved).reset(source.state_dict())


def test_switching_shuffle_between_save_and_load_is_refused(folder: Path):
    source = shards(folder, shuffle=True)
    next(source)
    with pytest.raises(StateError, match="shuffled=True where this pipeline has shuffled=False"):
        shards(folder).reset(source.state_dict())


def test_more_streams_than_samples_leave_some_empty(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 3))
    found: list[list[int]] = []
    for stream in range(5):
        source = shards(path)
        source.bind(Context(stream=stream, streams=5))
        found.append(numbers(source))
    assert found == [[0], [1], [2], [], []]


def test_empty_shards_only_give_nothing(tmp_path: Path):
    source = shards(write_tar(tmp_path / "0.tar", []), shuffle=True)
    assert (numbers(source), len(source)) == ([], 0)


# ---- damage ----------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    path = tmp_path / "0.tar"
    path.write_bytes(path.read_bytes()[: offsets_by_tarfile(path)[5] + 100])
    return tmp_path


def test_damage_is_raised_after_the_whole_samples_and_the_stream_goes_on(damaged: Path):
    source = shards(damaged)
    assert [int(next(source)["__key__"]) for _ in range(5)] == list(range(5))
    with pytest.raises(ShardError, match=r"0.tar is unreadable at byte \d+") as caught:
        next(source)
    assert "restore key (0, 5)" in "".join(caught.value.__notes__)
    assert numbers(source) == list(range(9, COUNT))


def test_damage_is_skipped_counted_and_logged_on_demand(damaged: Path, caplog: pytest.LogCaptureFixture):
    source: Any = shards(damaged, on_error="skip")
    assert numbers(source) == [*range(5), *range(9, COUNT)]
    assert source.failed == 1
    assert "goes on behind damaged data: sample" in caplog.text


def test_a_callable_gets_error_and_key(damaged: Path):
    seen: list[Any] = []
    source = shards(damaged, on_error=lambda error, key: seen.append((type(error), key)))
    assert len(numbers(source)) == COUNT - 4
    assert seen == [(ShardError, (0, 5))]


def test_a_shard_that_vanished_ends_the_stream_when_more_fail_than_tolerated(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 300))
    prepare_by_hand(tmp_path)
    source = shards(tmp_path, on_error="skip")
    (tmp_path / "0.tar").unlink()
    with pytest.raises(FatalSampleError, match="elements in a row failed"):
        next(source)


def test_a_missing_index_is_never_skipped(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 5))
    prepare_by_hand(tmp_path)
    (tmp_path / "0.tar.idx").unlink()
    source = shards(tmp_path, on_error="skip")
    for _ in range(2):
        with pytest.raises(DatasetError, match=r"0.tar.idx does not exist"):
            next(source)


# ---- remote ----------------------------------------------------------------------------------


@pytest.fixture
def remote(folder: Path) -> str:
    for tar in folder.glob("*.tar"):
        MemoryFileSystem().pipe(f"/source/{tar.name}", tar.read_bytes())
    return "memory://source"


def test_remote_shards_give_the_same_samples(folder: Path, remote: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(read_ahead, "_SCATTERED_SAMPLES", 3)
    for options in ({}, {"shuffle": True, "sequence_length": 2}, {"shuffle": True, "sequence_length": 1}):
        assert numbers(shards(remote, **options)) == numbers(shards(folder, **options))


def test_the_contract_holds_for_remote_shards(remote: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(read_ahead, "_SCATTERED_SAMPLES", 4)
    testing.check_contract(lambda: shards(remote, shuffle=True, sequence_length=3), most=12, workers=False)


def test_the_next_group_is_fetched_while_this_one_is_consumed(remote: str, monkeypatch: pytest.MonkeyPatch):
    import threading

    monkeypatch.setattr(read_ahead, "_SCATTERED_SAMPLES", 5)
    read: list[int] = []
    second = threading.Event()
    original = read_ahead._read

    def noted(*arguments: Any) -> Any:
        read.append(int(arguments[1][0]))
        if len(read) == 2:
            second.set()
        return original(*arguments)

    monkeypatch.setattr(read_ahead, "_read", noted)
    source = shards(remote)
    next(source)
    assert second.wait(5)
    assert read == [0, 5]
    source.stop()


def test_a_consumer_that_stops_early_leaves_nothing_behind(remote: str, capfd: pytest.CaptureFixture[str]):
    source = shards(remote)
    next(source)
    source.stop()
    del source
    assert capfd.readouterr() == ("", "")


def test_a_small_dataset_is_shuffled_too_if_nothing_is_said_about_sequences(tmp_path: Path):
    write_plain(tmp_path / "0.tar", 40)
    source = shards(tmp_path, shuffle=True)
    first, second = ([sample["__key__"] for sample in source] for _ in range(2))
    assert first != second
    assert sorted(first) == sorted(second) != first


def test_a_relative_path_stays_what_it_was_when_the_program_goes_elsewhere(tmp_path: Path, monkeypatch: Any):
    write_plain(tmp_path / "data" / "0.tar", 3)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    source = shards("data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(list(source)) == 3


def write_plain(path: Path, count: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number in range(count):
            tar.addfile(tarfile.TarInfo(f"{number:03}.txt"))


def test_several_epochs_are_shuffled_together(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "0.tar", [(f"{n:02d}.txt", b"%d" % n) for n in range(50)])
    node = shards(path, shuffle=True, shuffle_epochs=4, sequence_length=1)
    assert len(node) == 200
    keyed = node.with_keys()
    passes = [[(sample["__key__"], key) for sample, key in keyed] for _ in range(2)]
    for number, pairs in enumerate(passes):
        assert all([key for key, _ in pairs].count(f"{n:02d}") == 4 for n in range(50))
        assert {key[0] for _, key in pairs} == set(range(4 * number, 4 * number + 4))
        assert len({key for _, key in pairs}) == 200
        assert len({name for name, _ in pairs[:50]}) < 48  # not one epoch after the other, which would give all 50
    assert passes[0] != passes[1]
    assert node.restore(passes[1][7][1])["__key__"] == passes[1][7][0]
    with pytest.raises(ValueError, match="needs shuffle=True for shuffle_epochs=2"):
        shards(path, shuffle_epochs=2)
    with pytest.raises(ValueError, match="shuffle_epochs >= 1, got shuffle_epochs=0"):
        shards(path, shuffle=True, shuffle_epochs=0)


@pytest.mark.parametrize("path", [3, None, [3], b"0.tar"])
def test_something_else_than_a_path_is_a_type_error_that_names_the_argument(path: Any) -> None:
    with pytest.raises(TypeError, match="shards needs path as a path or a list of paths, got"):
        shards(path)  # pyright: ignore[reportArgumentType]
