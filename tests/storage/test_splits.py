import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energon_nodes.core.errors import DatasetError
from energon_nodes.storage.metadata import expand
from energon_nodes.storage.shard_names import check_shard_names, collapse
from energon_nodes.storage.split_text import format_lists, parse_lists
from energon_nodes.storage.splits import FromFile, Patterns, Ratios, Split, parse_rule, read_lists

TEN = [f"part_{number:02d}.tar" for number in range(10)]


@pytest.mark.parametrize(
    ("ratios", "counts"),
    [
        ("7,2,1", [7, 2, 1]),
        ("0.7,0.2,0.1", [7, 2, 1]),
        ((8, 1, 1), [8, 1, 1]),
        ("1,0,0", [10, 0, 0]),
        ("1,1,1", [3, 3, 4]),
        ((0.1, 0.2, 0.7), [1, 2, 7]),
        ("0, 0, 5", [0, 0, 10]),
        ((Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)), [3, 3, 4]),
    ],
)
def test_ratios_divide_ten_shards(ratios: object, counts: list[int]) -> None:
    rule = parse_rule(ratios)
    assert rule is not None
    assert list(rule.divide(TEN).counts.values()) == counts


@given(
    shares=st.lists(st.integers(0, 10**6) | st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=6),
    count=st.integers(0, 400),
)
def test_no_shard_is_lost_and_none_is_in_two_parts(shares: list[float], count: int) -> None:
    if not any(shares):
        shares[0] = 1
    shards = [str(number) for number in range(count)]
    split = Ratios({str(number): share for number, share in enumerate(shares)}).divide(shards)
    assert [shard for part in split.parts.values() for shard in part] == shards
    total = sum(map(Fraction, map(str, shares)))
    for share, part in zip(shares, split.parts.values(), strict=True):
        assert abs(len(part) - Fraction(str(share)) / total * count) <= 1


def test_the_largest_part_is_never_left_empty() -> None:
    assert Ratios({"train": 8, "val": 1, "test": 1}).divide(["0.tar"]).counts == {"train": 1, "val": 0, "test": 0}
    assert Ratios({"a": 1, "b": 1, "c": 1}).divide(["0.tar", "1.tar"]).parts == {
        "a": ["0.tar"],
        "b": ["1.tar"],
        "c": [],
    }


def test_further_shards_go_where_most_is_missing() -> None:
    rule = Ratios({"train": 8, "val": 1, "test": 1})
    split = rule.divide(TEN)
    more = rule.extend(split, [f"new_{number}.tar" for number in range(10)])
    assert more.counts == {"train": 16, "val": 2, "test": 2}
    assert all(more.parts[part][: len(shards)] == shards for part, shards in split.parts.items())


def test_patterns_fit_the_beginning_of_names_after_braces_are_expanded() -> None:
    shards = ["extra/0.tar", "train/0.tar", "train/val.tar", "val/0.tar"]
    rule = parse_rule({"train": "train/.*", "rest": "{val,extra}/"})
    assert rule is not None
    assert rule.divide(shards).parts == {
        "train": ["train/0.tar", "train/val.tar"],
        "rest": ["extra/0.tar", "val/0.tar"],
    }


def test_a_shard_may_be_in_two_parts_and_is_in_none_twice() -> None:
    split = Patterns({"all": [".*", "part_00"], "first": ["part_0[01]"]}).divide(TEN)
    assert split.parts == {"all": TEN, "first": TEN[:2]}


def test_a_part_without_shards_is_an_error_with_the_pattern_and_the_nearest_names() -> None:
    with pytest.raises(DatasetError, match=r"'val'.*'vla-shard-\.\*'.*nearest names: 'val-shard-0.tar'"):
        Patterns({"val": ["vla-shard-.*"]}).divide(["train-shard-0.tar", "val-shard-0.tar"])


def test_a_file_name_pattern_is_recognized_and_translated() -> None:
    with pytest.raises(DatasetError, match=re.escape(r"the regular expression is train/shard-.*\.tar")):
        Patterns({"train": ["train/shard-*.tar"]}).divide(["train/shard-0.tar"])
    with pytest.raises(ValueError, match=r"'\*\.tar' is no regular expression"):
        Patterns({"train": ["*.tar"]})


def test_a_split_is_taken_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("split_parts:\n  on: ['part_{00..03}.tar']\n  off:\n  - part_07.tar\nexclude: [part_07.tar/7]\n")
    rule = parse_rule(file)
    assert isinstance(rule, FromFile)
    assert rule.divide(TEN) == Split({"on": TEN[:4], "off": ["part_07.tar"]}, ("part_07.tar/7",))
    with pytest.raises(DatasetError, match=r"'on' names the shard 'part_00.tar', not found"):
        rule.divide(TEN[1:])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("8,1", "three numbers"),
        ("8,1,1,1", "three numbers"),
        ((1, 2), "three numbers"),
        ("train", "neither three numbers"),
        ({}, "at least one part"),
        ({"train": 1, "val": "x"}, "a number for every part"),
        ({"train": []}, "a number for every part"),
        ({"": 1}, "part names"),
        ({"train": -1}, "at least 0"),
        ("0,0,0", "above 0"),
        ({"train": float("nan")}, "at least 0"),
        ("nan,1,1", "a share of a split must be a number of at least 0"),
        ("1,-2,3", "a share of a split must be a number of at least 0"),
    ],
)
def test_other_splits_are_refused(split: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rule(split)


def test_a_split_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must be three numbers, a mapping"):
        parse_rule(5)


@given(
    st.lists(
        st.builds(
            lambda folder, number, width, ending: f"{folder}{number:0{width}d}{ending}.tar",
            st.sampled_from(["", "a/", "b1/"]),
            st.integers(0, 30),
            st.integers(1, 3),
            st.sampled_from(["", "x", "_7"]),
        ),
        max_size=40,
    )
)
def test_collapsed_names_expand_to_the_same(names: list[str]) -> None:
    assert [name for entry in collapse(names) for name in expand(entry)] == names
    names.sort()
    assert [name for entry in collapse(names) for name in expand(entry)] == names


def test_runs_are_collapsed_as_far_as_they_go() -> None:
    assert collapse(["9.tar", "10.tar", "11.tar"]) == ["9.tar", "{10..11}.tar"]
    assert collapse(["a1/0.tar", "a1/1.tar", "a2/0.tar", "a2/1.tar"]) == ["a1/{0..1}.tar", "a2/{0..1}.tar"]
    assert collapse(["3.tar", "2.tar", "1.tar"]) == ["3.tar", "2.tar", "1.tar"]
    assert collapse([]) == []
    assert len(collapse([f"{k:07d}.tar" for k in range(20_000)])) == 1


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda text: text.isprintable()),
        st.lists(st.text(min_size=1).filter(lambda text: not re.search(r"[\\{}\x00-\x1f\x7f-\x9f]", text))),
        max_size=4,
    ),
    st.lists(st.sampled_from(["a.tar", "b.tar/k 0", "c: d", "#x", "- y", "'q'", '"', "on", "1"])),
)
def test_what_is_written_is_read(parts: dict[str, list[str]], exclude: list[str]) -> None:
    assert parse_lists(format_lists(parts, exclude)) == {"split_parts": parts, "exclude": exclude}


def test_numbered_shards_are_written_plainly() -> None:
    # Lists of plain names are read without a YAML parser, which would take longer than all else at start-up.
    assert "  - 000.tar\n" in format_lists({"train": ["000.tar"]})
    assert "- part_{00..07}.tar\n" in format_lists({"train": ["part_{00..07}.tar"]})


@pytest.mark.parametrize("name", ["a{0}.tar", "a\\b.tar", "a\nb.tar", "\udcff.tar"])
def test_names_that_a_split_cannot_hold_are_refused(name: str) -> None:
    with pytest.raises(DatasetError, match="rename these files, or leave them out"):
        check_shard_names(["fine.tar", name])


def test_split_files_of_another_form_are_refused(tmp_path: Path) -> None:
    for text, message in [
        ("split_parts: [a]", "must hold split_parts"),
        ("split_parts: {}\nother: 1", "must hold split_parts"),
        ("split_parts: {train: x}", "must be a list"),
        ("a: [", "cannot be parsed"),
    ]:
        (tmp_path / "s.yaml").write_text(text)
        with pytest.raises(DatasetError, match=message):
            read_lists(str(tmp_path / "s.yaml"))
    with pytest.raises(DatasetError, match="does not exist"):
        read_lists(str(tmp_path / "no.yaml"))


def test_ends_of_parts_ascend() -> None:
    for count in range(50):
        ends = [0]
        for part in Ratios({"a": 1, "b": 1, "c": 2}).divide(list(map(str, range(count)))).parts.values():
            ends.append(ends[-1] + len(part))
        assert all(a <= b for a, b in pairwise(ends))
        assert ends[-1] == count
