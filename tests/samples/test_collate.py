"""Collation: what every type of value becomes, what rules do, and what samples that do not go together say."""

import dataclasses
import pickle
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import energon_nodes as en
from energon_nodes.core.errors import SampleError


def column(values, **settings):
    """Return what becomes of a field with these values."""
    samples = [{"__key__": f"k{number}", "x": value} for number, value in enumerate(values)]
    return en.Collate(**settings)(samples)["x"]


def same(left, right):
    assert type(left) is type(right)
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    assert torch.equal(left, right)


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any = None


class Point(NamedTuple):
    x: Any
    y: Any


# ---- by type --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.bfloat16, torch.bool])
def test_tensors_of_one_shape_are_stacked(dtype):
    tensors = [torch.tensor([[0, 1], [1, value]]).to(dtype) for value in range(3)]
    same(column(tensors), torch.stack(tensors))


def test_tensors_of_other_sizes_are_padded_on_the_right_with_zeros():
    first, second = torch.ones(2, 3), torch.full((1, 5), 2.0)
    expected = torch.tensor([[[1.0, 1, 1, 0, 0], [1, 1, 1, 0, 0]], [[2, 2, 2, 2, 2], [0, 0, 0, 0, 0]]])
    same(column([first, second]), expected)


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "f2", ">f8", "?", "c8"])
def test_arrays_become_tensors_of_the_same_dtype(dtype):
    arrays = [np.array([[0, 1], [2, value]]).astype(dtype) for value in range(3)]
    result = column(arrays)
    assert np.array_equal(result.numpy(), np.stack(arrays))
    assert result.numpy().dtype == np.dtype(dtype).newbyteorder("=")


def test_arrays_of_other_sizes_are_padded_and_stay_as_they_were():
    frozen = np.frombuffer(b"\1\2\3", np.uint8)
    result = column([frozen, np.arange(9, 7, -1, dtype=np.uint8)[::-1]])
    same(result, torch.tensor([[1, 2, 3], [8, 9, 0]], dtype=torch.uint8))
    result[0, 0] = 7
    assert frozen[0] == 1


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.array([{}], object), np.array(["2020"], "M8[Y]")])
def test_arrays_of_what_no_tensor_holds_are_listed(array):
    result = column([array, array])
    assert type(result) is list
    assert result[0] is array


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], torch.tensor([1, 2], dtype=torch.int64)),
        ([0.5, 2.0], torch.tensor([0.5, 2.0], dtype=torch.float32)),
        ([1, 2.5], torch.tensor([1.0, 2.5], dtype=torch.float32)),
        ([True, False], torch.tensor([True, False])),
        ([np.uint8(1), np.uint8(255)], torch.tensor([1, 255], dtype=torch.uint8)),
        ([np.float64(0.1), np.float64(2)], torch.tensor([0.1, 2.0], dtype=torch.float64)),
        ([2**63 - 1], torch.tensor([2**63 - 1])),
    ],
)
def test_numbers_become_a_tensor(values, expected):
    same(column(values), expected)


def test_floats_follow_the_default_dtype_of_torch():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert column([0.5]).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        [b"a", b""],
        [[1, 2], [3]],
        [[], []],
        [(1, 2), (3,)],
        [Image.new("RGB", (2, 2)), Image.new("L", (3, 1))],
        [{1}, {2}],
        ["a", None],
        [None, [1]],
    ],
)
def test_everything_else_is_listed_and_may_be_none_in_places(values):
    result = column(values)
    assert type(result) is list
    assert all(got is value for got, value in zip(result, values, strict=True))


def test_a_field_that_is_none_in_every_sample_is_none_in_the_batch():
    assert column([None, None]) is None


def test_entries_with_two_underscores_are_listed_whatever_they_are():
    samples = [
        {"__key__": "a", "__subflavors__": {"x": 1}, "__sources__": None, "__restore_key__": (0, 1)},
        {"__key__": "b", "__subflavors__": {}, "__sources__": None, "__restore_key__": (0, 2)},
    ]
    assert en.collate(samples) == {
        "__key__": ["a", "b"],
        "__subflavors__": [{"x": 1}, {}],
        "__sources__": [None, None],
        "__restore_key__": [(0, 1), (0, 2)],
    }


def test_a_batch_of_typed_samples_has_their_type():
    samples = [
        en.VQASample(__key__=str(size), image=torch.ones(3, size, 2), context="why", answers=["a"] * size)
        for size in (1, 2)
    ]
    batch = en.collate(samples)
    assert type(batch) is en.VQASample
    assert batch.__key__ == ["1", "2"]
    assert batch.image.shape == (2, 3, 2, 2)
    assert batch.image[0, :, 1].sum() == 0
    assert (batch.context, batch.answers, batch.answer_weights) == (["why", "why"], [["a"], ["a", "a"]], None)


def test_dicts_dataclasses_and_named_tuples_are_gone_into():
    def sample(number):
        return {"d": {"deep": Pair(left=Point(number, "p")), "text": "t"}, "p": Point(torch.ones(number), None)}

    batch = en.collate([sample(1), sample(2)])
    assert batch["d"]["text"] == ["t", "t"]
    assert type(batch["d"]["deep"]) is Pair
    point = batch["d"]["deep"].left
    assert type(point) is Point
    same(point.x, torch.tensor([1, 2]))
    assert point.y == ["p", "p"]
    same(batch["p"].x, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    assert batch["p"].y is None
    assert batch["d"]["deep"].right is None


def test_samples_that_are_tuples_give_a_tuple_of_their_columns():
    images, labels, names = en.collate([(torch.zeros(3), 1, "a"), (torch.ones(3), 2, "b")])
    assert images.shape == (2, 3)
    same(labels, torch.tensor([1, 2]))
    assert names == ["a", "b"]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [([1, 2], torch.tensor([1, 2])), ([torch.zeros(2), torch.zeros(2)], torch.zeros(2, 2))],
)
def test_samples_that_are_bare_values_give_one_column(samples, expected):
    same(en.collate(samples), expected)
    assert en.collate(["a", "b"]) == ["a", "b"]


def test_a_batch_is_made_without_the_init_of_one_sample():
    @dataclasses.dataclass(frozen=True)
    class Checked:
        size: int
        twice: int = dataclasses.field(init=False)

        def __post_init__(self):
            assert self.size > 0
            object.__setattr__(self, "twice", 2 * self.size)

    batch = en.collate([Checked(1), Checked(2)])
    same(batch.size, torch.tensor([1, 2]))
    same(batch.twice, torch.tensor([2, 4]))


def test_a_type_with_from_samples_makes_its_batch_itself():
    class Own(Pair):
        @classmethod
        def from_samples(cls, samples):
            return ("own", [sample.left for sample in samples])

    assert en.collate([{"x": Own(1)}, {"x": Own(2)}]) == {"x": ("own", [1, 2])}


def test_a_batch_of_one_has_a_first_dimension_too():
    batch = en.collate([{"x": torch.zeros(3), "n": 1, "t": "a"}])
    assert batch["x"].shape == (1, 3)
    assert batch["n"].shape == (1,)
    assert batch["t"] == ["a"]


def test_an_empty_list_is_no_batch():
    with pytest.raises(ValueError, match="a batch needs at least one sample, got none"):
        en.collate([])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda shape: torch.rand(shape) + 1), min_size=1, max_size=5
    ),
    st.sampled_from(["right", "left"]),
)
def test_padding_keeps_every_value_in_its_corner(tensors, side):
    batch = en.Pad(value=-1, side=side)(tensors)
    height, width = (max(tensor.shape[at] for tensor in tensors) for at in (0, 1))
    assert batch.shape == (len(tensors), height, width)
    for row, tensor in zip(batch, tensors, strict=True):
        for y in range(height):
            for x in range(width):
                a, b = (y, x) if side == "right" else (y - height + tensor.shape[0], x - width + tensor.shape[1])
                inside = 0 <= a < tensor.shape[0] and 0 <= b < tensor.shape[1]
                assert row[y, x] == (tensor[a, b] if inside else -1)


# ---- rules ----------------------------------------------------------------------------------------


def test_a_pad_rule_has_a_value_and_a_side_and_takes_lists_of_numbers():
    same(
        column([[1, 2, 3], [], [4]], rules={"x": en.Pad(value=-1, side="left")}),
        torch.tensor([[1, 2, 3], [-1, -1, -1], [-1, -1, 4]]),
    )


def test_rules_by_path_come_before_names_and_names_before_types():
    sample = {"a": {"x": torch.ones(1), "y": torch.ones(1)}, "x": torch.ones(1), "z": torch.ones(1)}
    rules = {"a.x": lambda values: "path", "x": lambda values: "name", torch.Tensor: lambda values: "type"}
    assert en.Collate(rules)([sample, sample]) == {"a": {"x": "path", "y": "type"}, "x": "name", "z": "type"}


def test_a_rule_for_a_base_type_covers_its_subtypes():
    images = [Image.new("RGB", (2, 2)), Image.new("RGB", (2, 2))]
    rules = {Image.Image: lambda values: len(values), dict: "list", int: "list", Point: "list"}
    assert column(images, rules=rules) == 2
    assert column([{"a": 1}, {}], rules=rules) == [{"a": 1}, {}]
    assert column([True, 2], rules=rules) == [True, 2]
    assert column([None, Point(1, 2)], rules=rules) == [None, Point(1, 2)]


def test_a_list_rule_takes_what_does_not_fit_together():
    values = [torch.zeros(2), None, torch.zeros(2, 3)]
    assert column(values, rules={"x": "list"}) == values


def test_the_default_for_tensors_and_arrays_can_be_chosen():
    ragged = [torch.zeros(1), torch.zeros(2)]
    assert type(column(ragged, default="list")) is list
    same(column([np.zeros(1), np.zeros(2)], default=en.Pad(1)), torch.tensor([[0.0, 1], [0, 0]], dtype=torch.float64))
    with pytest.raises(SampleError, match="stacking needs one shape"):
        column(ragged, default="stack")


def test_positions_of_tuples_are_names_for_rules():
    assert en.Collate({"1": "list"})([(1, 2), (3, 4)])[1] == [2, 4]


def test_an_error_in_a_rule_of_the_user_says_which_field():
    with pytest.raises(ZeroDivisionError) as caught:
        column([1, 2], rules={"x": lambda values: 1 / 0})
    assert caught.value.__notes__ == ["in the rule for field 'x'"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": {"x": "padd"}}, "the rule of 'x' must be 'pad', 'stack', 'list', a Pad or a function"),
        ({"rules": {1: "pad"}}, "a rule belongs to the name of a field or to a type, got 1"),
        ({"default": None}, "the rule of 'default' must be"),
        ({"rules": [1, 2]}, "write collate=Collate() or collate"),  # as batch(2, collate=Collate) does
        ({"into": int}, "into must be a dataclass, a named tuple or dict"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_construction(settings, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        en.Collate(**settings)


def test_a_side_that_is_none_is_refused():
    with pytest.raises(ValueError, match="side='right' or side='left', got side='top'"):
        en.Pad(side="top")


def test_collate_can_be_pickled():
    rules = {"x": en.Pad(1, "left"), torch.Tensor: "stack"}
    again = pickle.loads(pickle.dumps(en.Collate(rules)))
    same(again([{"x": [1]}, {"x": [2, 3]}])["x"], torch.tensor([[1, 1], [2, 3]]))


# ---- into another type ------------------------------------------------------------------------------


def test_a_batch_can_have_a_type_of_its_own():
    samples = [en.TextSample(__key__="a", text="x"), en.TextSample(__key__="b", text="y")]

    @dataclasses.dataclass
    class Batch:
        text: list[str]
        more: int = 3

    assert en.Collate(into=Batch)(samples) == Batch(["x", "y"])
    assert en.Collate(into=dict)(samples)["__key__"] == ["a", "b"]
    assert en.Collate(into=Point)([{"x": "1", "y": "2", "z": object()}]) == Point(["1"], ["2"])


def test_a_batch_type_whose_fields_are_not_there_is_an_error():
    with pytest.raises(SampleError, match=r"into=Point needs the fields 'y', which the samples do not have"):
        en.Collate(into=Point)([{"x": 1}])


# ---- what does not go together ------------------------------------------------------------------------

ONE, TWO = torch.zeros(3, 4, 4), torch.zeros(4, 4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([ONE, ONE, TWO], "sample 0 ('k0') has shape (3, 4, 4) and field 'x' of sample 2 ('k2') has shape (4, 4)"),
        ([ONE, ONE.double()], "sample 0 ('k0') has torch.float32 and field 'x' of sample 1 ('k1') has torch.float64"),
        ([ONE, None], "field 'x' of sample 1 ('k1') is None, which is no tensor: fill it in before"),
        ([None, ONE], "field 'x' of sample 0 ('k0') is None, which is no tensor"),
        ([ONE, "a"], "field 'x' of sample 1 ('k1') is a str, which is no tensor"),
        ([np.zeros(2), None], "field 'x' of sample 1 ('k1') is None"),
        ([1, None], "field 'x' of sample 1 ('k1') is None, where others have a number"),
        ([None, 1], "field 'x' of sample 0 ('k0') is None, where others have a number"),
        ([1, "2"], "field 'x' of sample 1 ('k1') is a str, where others have a number"),
        ([1, 2**64], f"64 bits, but field 'x' of sample 1 ('k1') is {2**64}"),
        ([{"a": 1}, {"b": 1}], "field 'x' of sample 0 ('k0') has 'a' and field 'x' of sample 1 ('k1') has 'b'"),
        ([{"a": 1}, {"a": 1, "b": 1}], "has 'a' and field 'x' of sample 1 ('k1') has 'a', 'b'"),
        ([{"a": 1}, None], "field 'x' of sample 1 ('k1') is None, where others have a mapping"),
        ([Pair(1), Point(1, 2)], "field 'x' of sample 1 ('k1') is a Point, where others have a Pair"),
        ([{"a": {"b": ONE}}, {"a": {"b": TWO}}], "field 'x.a.b' of sample 1 ('k1') has shape (4, 4)"),
        ([Pair(ONE), Pair(TWO)], "field 'x.left' of sample 1 ('k1') has shape (4, 4)"),
    ],
)  # fmt: skip
def test_values_that_do_not_go_together_are_named_with_field_and_samples(values, message):
    with pytest.raises(SampleError, match=re.escape(message)):
        column(values)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([en.TextSample(__key__="a", text="t"), {"text": "t"}], "sample 1 is a dict, where others have a TextSample"),
        ([{"a": 1}, {"b": 2}], "sample 0 has 'a' and sample 1 has 'b'"),
        ([(1, 2), (1,)], "sample 1 is a tuple, where others have a tuple of 2"),
        ([torch.zeros(1), torch.zeros(1, 1)], "sample 0 has shape (1,) and sample 1 has shape (1, 1)"),
    ],
)
def test_samples_that_do_not_go_together_are_named(samples, message):
    with pytest.raises(SampleError, match=re.escape(message)):
        en.collate(samples)


@pytest.mark.parametrize(
    ("value", "dtype"), [(-1, torch.uint8), (256, torch.uint8), (0.5, torch.int64), (2, torch.bool), ("a", torch.int64)]
)
def test_a_padding_value_that_the_dtype_does_not_hold_is_refused(value, dtype):
    with pytest.raises(SampleError, match=r"cannot fill a tensor of torch\."):
        en.Pad(value)([torch.zeros(1, dtype=dtype), torch.zeros(2, dtype=dtype)])


def test_lists_that_are_no_rectangle_of_numbers_cannot_be_padded():
    with pytest.raises(SampleError, match=r"field 'x' of sample 1 \('k1'\) cannot become a tensor"):
        column([[1], ["a"]], rules={"x": "pad"})


# ---- in a pipeline -------------------------------------------------------------------------------------


def test_a_batch_verb_takes_it_and_a_policy_passes_over_batches_that_do_not_fit():
    shapes = [(2,), (3,), (1,), (1, 1), (4,)]
    samples = [{"__key__": str(number), "x": torch.ones(shape)} for number, shape in enumerate(shapes)]
    pipeline = en.items(samples).batch(2, collate=en.collate, on_error="skip")
    assert [(batch["__key__"], tuple(batch["x"].shape)) for batch in pipeline] == [
        (["0", "1"], (2, 3)),
        (["4"], (1, 4)),
    ]


def test_batches_resume_as_they_were():
    samples = [{"__key__": str(number), "x": list(range(number))} for number in range(7)]
    pipeline = en.items(samples, shuffle=True).shuffle(3).batch(2, collate=en.Collate({"x": "pad"}))
    next(pipeline)
    state = pipeline.state_dict()
    rest = [batch["__key__"] for batch in pipeline]
    pipeline.reset(state)
    assert [batch["__key__"] for batch in pipeline] == rest
