import gzip
import io
import pickle
import random
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.core.errors import ShardError
from energon_nodes.storage import reading
from energon_nodes.storage.open_shards import open_shards
from energon_nodes.storage.provenance import Source
from tests.storage.tars import offsets_by_tarfile, plain, prepare_by_hand, read_by_tarfile, samples_of, write_tar

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def read_all(path: Any, **options: Any) -> list[Any]:
    shards = open_shards(path, **options)
    return shards.read(range(shards.count))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mtime", [0, 1.5e9 + 0.123456789])
def test_samples_are_those_that_tarfile_reads(tmp_path: Path, format: int, mtime: float):
    mtime = mtime if format == tarfile.PAX_FORMAT else int(mtime)
    path = write_tar(tmp_path / "0.tar", samples_of(0, 300), format, mtime=mtime)
    assert [plain(sample) for sample in read_all(path)] == read_by_tarfile(path)


def test_regular_samples_never_reach_the_exact_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number, (format, mtime) in enumerate(
        [(FORMATS[0], 0), (FORMATS[1], 7), (FORMATS[2], 0), (FORMATS[2], 1e9 + 0.5)]
    ):
        write_tar(tmp_path / f"{number}.tar", samples_of(0, 50), format, mtime=mtime)

    def refuse(*_: Any) -> None:
        raise AssertionError("the exact reader was asked")

    monkeypatch.setattr(reading, "_read_exactly", refuse)
    assert len(read_all(tmp_path)) == 200


member_names = st.builds(
    "{}.{}".format,
    st.one_of(
        st.from_regex(r"[a-z]{1,3}", fullmatch=True),
        st.from_regex(r"(x\.y/|\./|__m__/|d/)?[a-zü]{0,9}", fullmatch=True),
        st.integers(0, 12).map(str),
        st.integers(60, 140).map(lambda length: "k" * length),
    ),
    st.sampled_from(["jpg", "txt", "a.json", "", "TXT", "cls"]),
)
contents = st.one_of(st.binary(max_size=40), st.integers(0, 1600).map(lambda size: b"z" * size))


@given(
    st.lists(st.tuples(member_names, contents), max_size=40),
    st.sampled_from(FORMATS[1:]),
    st.sampled_from([0, 1.5e9 + 0.25, 1234567.125]),
    st.integers(0, 3),
)
def test_any_tar_is_read_as_tarfile_reads_it(members: list[tuple[str, bytes]], format: int, mtime: float, owners: int):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.tar"
        with tarfile.open(path, "w", format=format) as archive:
            for number, (name, data) in enumerate(members):
                info = tarfile.TarInfo(name)
                info.size, info.mtime = len(data), mtime if format == tarfile.PAX_FORMAT else int(mtime)
                info.uname = "user" * (number % (owners + 1))
                archive.addfile(info, io.BytesIO(data))
        expected = read_by_tarfile(path)
        keys = [key for key, _ in expected]
        shards = open_shards(path)
        assert shards.count == len(expected)
        names_seen: list[list[str]] = _names_by_sample(path)
        for sample, (key, parts), names in zip(shards.read(range(shards.count)), expected, names_seen, strict=True):
            if keys.count(key) > 1 or len(set(names)) < len(names):
                assert isinstance(sample, ShardError)
            else:
                assert plain(sample) == (key, parts)


def _names_by_sample(path: Path) -> list[list[str]]:
    from tests.storage.tars import split_by_pattern

    found: list[tuple[str, list[str]]] = []
    with tarfile.open(path) as archive:
        for member in archive:
            pair = split_by_pattern(member.name)
            if pair is not None:
                if not found or found[-1][0] != pair[0]:
                    found.append((pair[0], []))
                found[-1][1].append(pair[1])
    return [names for _, names in found]


def test_samples_come_in_the_order_they_are_asked_for(tmp_path: Path):
    for number in range(4):
        write_tar(tmp_path / f"{number}.tar", samples_of(50 * number, 50 * (number + 1)))
    shards = open_shards(tmp_path)
    indices = [*random.Random(0).sample(range(200), 150), 7, 7]
    assert [sample["__key__"] for sample in shards.read(indices)] == [f"{index:06d}" for index in indices]
    runs = [*range(180, 200), *range(40, 60), *range(5)]
    assert [sample["__key__"] for sample in shards.read(np.array(runs))] == [f"{index:06d}" for index in runs]


def test_a_sample_says_where_it_came_from(tmp_path: Path):
    write_tar(tmp_path / "x/0.tar", samples_of(0, 30))
    write_tar(tmp_path / "y/0.tar", samples_of(30, 60))
    for sample in open_shards(tmp_path).read([31, *range(30, 60)])[:2]:
        assert sample["__shard__"] == "y/0.tar"
        (source,) = sample["__sources__"]
        names = (f"{sample['__key__']}.txt", f"{sample['__key__']}.cls")
        assert source == Source(str(tmp_path), int(sample["__key__"]), "y/0.tar", names)


def test_sources_are_plain_once_they_are_copied_pickled_or_added(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 30))
    sources = open_shards(tmp_path).read(range(30))[3]["__sources__"]
    none: tuple[Source, ...] = ()
    copies = [
        pickle.loads(pickle.dumps(sources)),
        sources + none,
        none + sources,
        sources[:],
        sources * 1,
        tuple(sources),
    ]
    assert all(type(copy) is tuple and copy == sources and hash(copy) == hash(sources) for copy in copies)
    assert (len(sources), sources[0] in sources, sources.index(sources[0]), sources.count(1)) == (1, True, 0, 0)
    assert isinstance(sources, tuple)
    assert repr(sources) == repr(tuple(sources))
    assert (sources != copies[0]) is False
    assert sources <= copies[0] <= sources
    assert not sources < copies[0]


def test_a_part_filter_reads_the_wanted_parts_only(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 30))
    shards = open_shards(tmp_path)
    for indices in (range(30), [3]):
        for sample in shards.read(indices, "cls".__eq__):
            assert set(sample) == {"__key__", "__shard__", "__sources__", "cls"}
            assert sample["__sources__"][0].file_names == (f"{sample['__key__']}.cls",)
        assert set(shards.read(indices, lambda part: False)[0]) == {"__key__", "__shard__", "__sources__"}


def test_any_number_of_parts_is_read(tmp_path: Path):
    for count in (1, 2, 3, 7):
        members = [(f"{key:03d}.{part}", f"{key} {part}".encode()) for key in range(20) for part in range(count)]
        path = write_tar(tmp_path / f"{count}.tar", members)
        assert [plain(sample) for sample in read_all(path)] == read_by_tarfile(path)


def test_a_limit_in_bytes_stops_after_the_samples_that_fit(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [(f"{key:03d}.bin", bytes(1000)) for key in range(100)])
    shards = open_shards(tmp_path)
    assert len(shards.read(range(100), limit=15_360)) == 10
    assert len(shards.read(range(100), limit=1)) == 1
    scattered = list(range(0, 100, 2))[::-1]
    assert [sample["__key__"] for sample in shards.read(scattered, limit=4_000)] == ["098", "096"]


def test_the_same_member_twice_in_one_sample_is_an_error_in_its_place(tmp_path: Path):
    twice = [("a.jpg", b"1"), ("a.json", b"2"), ("a.jpg", b"3")]
    path = write_tar(tmp_path / "0.tar", [*samples_of(0, 20), *twice, *samples_of(20, 40)])
    samples = read_all(path)
    assert [isinstance(sample, ShardError) for sample in samples] == [False] * 20 + [True] + [False] * 20
    assert "'a.jpg' stands twice" in str(samples[20])
    assert "'a'" in str(samples[20])
    assert str(path) in str(samples[20])


def test_the_same_key_in_two_shards_gives_two_samples(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("x.jpg", b"1")])
    write_tar(tmp_path / "1.tar", [("x.jpg", b"2")])
    assert [sample["jpg"] for sample in read_all(tmp_path)] == [b"1", b"2"]


def test_samples_with_different_parts_are_delivered_as_they_are(tmp_path: Path):
    members: list[tuple[str, bytes]] = []
    for key in range(40):
        members.append((f"{key:03d}.1.jpg", b"one"))
        members += [(f"{key:03d}.2.jpg", b"two")] * (key % 3 == 0)
    path = write_tar(tmp_path / "0.tar", members)
    assert [plain(sample) for sample in read_all(path)] == read_by_tarfile(path)


def test_parts_keep_their_case(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", [("a.LEFT.JPG", b"1"), ("b.MP4", b"2"), ("c.TXT", b"3")])
    assert [set(plain(sample)[1]) for sample in read_all(path)] == [{"LEFT.JPG"}, {"MP4"}, {"TXT"}]


def test_keys_of_changing_length_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_tar(tmp_path / "0.tar", [(f"{key}.txt", b"x") for key in range(95, 1005)])
    monkeypatch.setattr(reading, "_read_exactly", None)
    assert [sample["__key__"] for sample in read_all(path)] == [str(key) for key in range(95, 1005)]


@pytest.mark.parametrize("folder", ["./", "../up/", "a.b/", "deep/er/", "__part__of/", "v1.0/./"])
def test_keys_in_folders_follow_the_same_rule(tmp_path: Path, folder: str):
    path = write_tar(tmp_path / "0.tar", [(f"{folder}{key}.txt", b"x") for key in range(30)])
    assert [plain(sample) for sample in read_all(path)] == read_by_tarfile(path)
    path = write_tar(tmp_path / "1.tar", [(f"{folder}{key:02d}.a.txt", b"x") for key in range(30)])
    assert [plain(sample) for sample in read_all(path)] == read_by_tarfile(path)


def test_a_sparse_member_is_refused_by_name_and_its_neighbours_are_read(tmp_path: Path):
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for key in range(20):
            info = tarfile.TarInfo(f"{key:02d}.bin")
            info.size = 3
            if key == 7:
                info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "3"}
            archive.addfile(info, io.BytesIO(b"abc"))
    samples = read_all(path)
    assert [number for number, sample in enumerate(samples) if isinstance(sample, ShardError)] == [7]
    assert "'07.bin' is a sparse file" in str(samples[7])


@pytest.mark.parametrize("name", ["x.tgz", "x.tar.gz", "x.tar"])
def test_compressed_shards_are_refused_with_the_way_out(tmp_path: Path, name: str):
    good = write_tar(tmp_path / "a.tar", samples_of(0, 3))
    (tmp_path / name).write_bytes(gzip.compress(good.read_bytes()))
    samples = read_all(tmp_path)
    assert [isinstance(sample, ShardError) for sample in samples] == [False] * 3 + [True]
    assert "compressed (gzip)" in str(samples[3])
    assert "gzip -d" in str(samples[3])


def test_a_compressed_shard_with_an_index_is_refused_too(tmp_path: Path):
    path = prepare_by_hand(write_tar(tmp_path / "0.tar", samples_of(0, 20)).parent) / "0.tar"
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert all("compressed (gzip)" in str(sample) for sample in read_all(tmp_path))


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("place", ["payload", "header", "end"])
def test_whole_samples_in_front_of_a_cut_are_delivered(tmp_path: Path, prepared: bool, place: str):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 40))
    write_tar(tmp_path / "1.tar", samples_of(40, 50))
    offsets = offsets_by_tarfile(path)
    if prepared:
        prepare_by_hand(tmp_path)
    end = {"payload": offsets[30] + 520, "header": offsets[30] + 100, "end": offsets[-1]}[place]
    path.write_bytes(path.read_bytes()[:end])
    samples = read_all(tmp_path)
    whole = 40 if place == "end" else 30
    assert [sample["__key__"] for sample in samples[:whole]] == [f"{key:06d}" for key in range(whole)]
    assert [sample["__key__"] for sample in samples[-10:]] == [f"{key:06d}" for key in range(40, 50)]
    errors = samples[whole:-10]
    assert all(isinstance(error, ShardError) for error in errors)
    # An index that covers all data proves that nothing is lost, so a prepared shard may lack its end mark.
    assert len(errors) == (10 if prepared and place != "end" else 0 if prepared else 1)
    for error in errors:
        assert str(end) in str(error)
        assert str(path) in str(error)


def test_a_flipped_bit_in_one_header_spoils_one_sample_of_a_prepared_shard(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 40))
    prepare_by_hand(tmp_path)
    offset = offsets_by_tarfile(path)[20]
    intact = read_all(tmp_path)
    for place in (2, 8, 10, 110, 126, 140, 150, 156, 260, 300, 345):
        data = bytearray(path.read_bytes())
        data[offset + place] ^= 1
        path.write_bytes(data)
        samples = read_all(tmp_path)
        bad = [number for number, sample in enumerate(samples) if isinstance(sample, ShardError)]
        if place in (110, 300):  # the owner, which nobody reads
            assert bad in ([20], [])
            assert [plain(sample) for sample in samples if sample not in bad] == [plain(sample) for sample in intact]
        else:
            assert bad == [20], place
            assert f"byte {offset}" in str(samples[20])
            assert samples[:20] + samples[21:] == intact[:20] + intact[21:]
        data[offset + place] ^= 1
        path.write_bytes(data)


def test_an_index_out_of_step_with_its_shard_is_an_error(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples_of(0, 40))
    prepare_by_hand(tmp_path)
    write_tar(path, [(name, data + bytes(600)) for name, data in samples_of(0, 40)])
    samples = read_all(tmp_path)
    assert isinstance(samples[0], ShardError)
    assert sum(isinstance(sample, ShardError) for sample in samples) >= 39
    for number, sample in enumerate(samples):
        assert isinstance(sample, ShardError) or sample["__key__"] == f"{number:06d}"


def test_interleaved_members_are_never_two_half_samples(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", [("0.a", b"1"), ("1.a", b"2"), ("0.b", b"3"), ("1.b", b"4")])
    samples = read_all(path)
    assert all(isinstance(sample, ShardError) for sample in samples)
    assert "sorted by key" in str(samples[0])
    np.array([0, 1024, 2048, 3072, 4096], "<u8").tofile(tmp_path / "0.tar.idx")


def test_two_keys_in_one_range_of_the_index_are_an_error(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("0.a", b"1"), ("1.a", b"2")])
    prepare_by_hand(tmp_path)
    np.array([0, 2048], "<u8").tofile(tmp_path / "0.tar.idx")
    (tmp_path / ".nv-meta/.info.json").write_text('{"shard_counts": {"0.tar": 1}}')
    (sample,) = read_all(tmp_path)
    assert "two keys, '0' and '1'" in str(sample)


def test_a_shard_that_vanished_is_an_error_for_its_samples_only(tmp_path: Path):
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", samples_of(10 * number, 10 * (number + 1)))
    prepare_by_hand(tmp_path)
    (tmp_path / "1.tar").unlink()
    samples = read_all(tmp_path)
    assert [isinstance(sample, ShardError) for sample in samples] == [False] * 10 + [True] * 10 + [False] * 10
    assert "1.tar" in str(samples[10])
    assert "No such file" in str(samples[10])


def test_excluded_samples_leave_a_gap(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples_of(0, 30))
    prepare_by_hand(tmp_path, exclude=["0.tar/00000{4,6}", "0.tar/nothing"])
    shards = open_shards(tmp_path)
    assert shards.count == 30
    for indices in (range(30), [6, 5, 4], range(29, -1, -1)):
        for index, sample in zip(indices, shards.read(indices), strict=True):
            assert (sample is None) if index in (4, 6) else sample["__key__"] == f"{index:06d}"


def test_indices_out_of_range_are_refused(tmp_path: Path):
    shards = open_shards(write_tar(tmp_path / "0.tar", samples_of(0, 3)))
    for index in (-1, 3):
        with pytest.raises(IndexError, match=str(index)):
            shards.read([0, index])
    assert shards.read([]) == []


def test_threads_read_the_same_set_at_once(tmp_path: Path):
    for number in range(8):
        write_tar(tmp_path / f"{number}.tar", samples_of(100 * number, 100 * (number + 1)))
    shards = open_shards(tmp_path)
    failures: list[Any] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(30):
            indices = generator.sample(range(800), 40)
            keys = [sample["__key__"] for sample in shards.read(indices)]
            if keys != [f"{index:06d}" for index in indices]:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
