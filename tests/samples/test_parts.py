"""Every basic part: what it gives, what it refuses, and what it says then."""

import builtins
import gzip
import io
import pickle
import struct
import zipfile
from fractions import Fraction

import numpy as np
import pytest
import torch

from energon_nodes.core.errors import DecodeError, FatalSampleError, TrustError
from energon_nodes.samples.decode import Decoder
from energon_nodes.samples.parts import inflate
from energon_nodes.samples.sniff import sniff


def decode(name, data, **settings):
    return Decoder(**settings)({"__key__": "a", name: data})[name]


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def pth(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["txt", "text", "transcript"])
def test_text_is_utf8(name):
    assert decode(name, "Grüße 🙂".encode()) == "Grüße 🙂"


@pytest.mark.parametrize("name", ["cls", "cls2", "index", "inx", "id"])
def test_numbers_are_ints(name):
    assert decode(name, b" -42\n") == -42


@pytest.mark.parametrize("name", ["json", "jsn"])
def test_json_keeps_integers_beyond_64_bits(name):
    assert decode(name, b'{"n": 123456789012345678901234567890, "x": [null, true]}') == {
        "n": 123456789012345678901234567890,
        "x": [None, True],
    }


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_comes_in_any_unicode_encoding(encoding):
    assert decode("json", '"ü"'.encode(encoding)) == "ü"


def test_json_that_is_nested_too_deeply_is_a_decode_error():
    with pytest.raises(DecodeError, match="RecursionError"):
        decode("json", b"[" * 200_000)


@pytest.mark.parametrize(
    "array", [np.arange(6, dtype=">i2").reshape(2, 3), np.array(1.5), np.array([("a", 1)], "U2,i4")]
)
def test_npy_gives_the_array_and_it_can_be_written_to(array):
    result = decode("npy", npy(array))
    assert (result == array).all()
    assert (result.dtype, result.shape) == (array.dtype, array.shape)
    assert result.flags.writeable


def test_npz_gives_a_dict_of_arrays():
    result = decode("npz", npz(a=np.arange(3), b=np.eye(2)))
    assert type(result) is dict
    assert list(result) == ["a", "b"]
    assert result["a"].tolist() == [0, 1, 2]
    assert result["b"].tolist() == [[1, 0], [0, 1]]


def test_arrays_of_objects_need_trust_in_npy_and_npz():
    array = np.array([Fraction(1, 3)], dtype=object)
    for name, data in (("npy", npy(array)), ("npz", npz(a=array))):
        with pytest.raises(TrustError, match=r"an array of Python objects.*trust=True.*parts=") as caught:
            decode(name, data)
        assert f"part {name!r} of sample 'a'" in caught.value.__notes__[0]
        result = decode(name, data, trust=True)
        assert (result if name == "npy" else result["a"])[0] == Fraction(1, 3)


def test_trust_does_not_make_a_pickle_of_what_is_named_an_array():
    for name in ("npy", "npz"):
        with pytest.raises(DecodeError):
            decode(name, pickle.dumps([1]), trust=True)


def test_an_array_whose_header_promises_too_much_is_a_decode_error():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }\n"
    data = b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + b"\0" * 8
    with pytest.raises(DecodeError, match="promises more than memory holds"):
        decode("npy", data)
    with pytest.raises(DecodeError, match="EOF"):
        decode("npy", npy(np.arange(100))[:-1])


def test_an_npz_bomb_is_stopped_at_the_limit():
    data = npz(a=np.zeros(100_000))
    with pytest.raises(DecodeError, match=r"unpacks to more than 1000 bytes.*inflate_limit="):
        decode("npz", data, inflate_limit=1000)
    assert decode("npz", data)["a"].shape == (100_000,)


def test_other_members_of_an_npz_stay_bytes():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", npy(np.arange(2)))
        archive.writestr("note.txt", b"hello")
    result = decode("npz", buffer.getvalue())
    assert result["a"].tolist() == [0, 1]
    assert result["note.txt"] == b"hello"


@pytest.mark.parametrize("name", ["mp", "msg"])
def test_msgpack_parts(name):
    msgpack = pytest.importorskip("msgpack")
    value = {"a": [1, 2.5, b"x", None], 3: "int key"}
    assert decode(name, msgpack.packb(value)) == value
    with pytest.raises(DecodeError):
        decode(name, msgpack.packb(value)[:-1])


def test_cbor_parts():
    cbor2 = pytest.importorskip("cbor2")
    value = {"a": [1, 2.5, b"x", None], "big": 1 << 70}
    assert decode("cbor", cbor2.dumps(value)) == value
    with pytest.raises(DecodeError):
        decode("cbor", cbor2.dumps(value)[:-1])


@pytest.mark.parametrize(("name", "package", "extra"), [("mp", "msgpack", "msgpack"), ("cbor", "cbor2", "cbor")])
def test_a_missing_package_stops_the_stream_and_names_the_extra(name, package, extra, monkeypatch):
    real = builtins.__import__

    def without(wanted, *args, **kwargs):
        if wanted == package:
            raise ImportError(f"No module named {package!r}")
        return real(wanted, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FatalSampleError, match=rf"pip install 'energon_nodes\[{extra}\]'"):
        decode(name, b"\x01")


@pytest.mark.parametrize("name", ["ten", "tb"])
def test_tenbin_parts_give_a_list_of_arrays(name):
    tenbin = pytest.importorskip("webdataset.tenbin")
    arrays = [np.arange(5, dtype=np.int64), np.ones((2, 3), np.float32)]
    data = bytes(tenbin.encode_buffer(arrays))
    result = decode(name, data)
    assert [array.tolist() for array in result] == [array.tolist() for array in arrays]
    assert result[1].dtype == np.float32
    assert result[0].flags.writeable
    assert decode("bin", data, guess_content=True)[0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(DecodeError):
        decode(name, data[:-70])


@pytest.mark.parametrize("length", [-16, -80, -1000, 1 << 40])
def test_a_length_in_tenbin_that_cannot_be_is_an_error_and_not_a_hang(length):
    with pytest.raises(DecodeError, match=f"the chunk at byte 0 says it has {length} bytes"):
        decode("ten", b"~TenBin~" + struct.pack("<q", length) + b"\0" * 128)


@pytest.mark.parametrize("zipped", [True, False])
def test_pth_gives_tensors_without_trust_and_more_with_it(zipped):
    options = {"_use_new_zipfile_serialization": zipped}
    result = decode("pth", pth({"w": torch.arange(3), "n": [1, "a"]}, **options))
    assert result["w"].tolist() == [0, 1, 2]
    assert result["n"] == [1, "a"]
    data = pth({"x": Fraction(1, 3)}, **options)
    with pytest.raises(TrustError, match=r"more than tensors and plain values.*trust=True"):
        decode("pth", data)
    assert decode("pth", data, trust=True) == {"x": Fraction(1, 3)}


@pytest.mark.parametrize("data", [b"", b"garbage", pth(torch.arange(9))[:100], pth(torch.arange(9))[:-30]])
def test_a_damaged_pth_is_a_decode_error(data):
    for trust in (False, True):
        with pytest.raises(DecodeError) as caught:
            decode("pth", data, trust=trust)
        assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize("name", ["pkl", "pickle", "pyd", "PKL"])
def test_pickles_need_trust(name):
    data = pickle.dumps({"a": 1})
    with pytest.raises(TrustError, match=r"it holds a pickle.*run any code.*trust=True"):
        decode(name, data)
    assert decode(name, data, trust=True) == {"a": 1}
    assert decode(name, data, parts=["txt"]) == data


def test_a_pickle_inside_gz_needs_trust_as_well():
    with pytest.raises(TrustError):
        decode("pkl.gz", gzip.compress(pickle.dumps(1)))


def test_inflate_joins_members_and_ignores_padding():
    assert inflate(gzip.compress(b"ab") + gzip.compress(b"") + gzip.compress(b"cd") + b"\0" * 9, 4) == b"abcd"
    with pytest.raises(ValueError, match="more than 3 bytes"):
        inflate(gzip.compress(b"ab") + gzip.compress(b"cd"), 3)
    assert inflate(gzip.compress(b""), 0) == b""


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "image"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image"),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"P6\n# made by hand\n5 4\n255\n", "image"),
        (b"P5 is a model", None),
        (b"BM\x36\0\0\0\0\0\0\0", "image"),
        (b"BMW builds cars", None),
        (b"\0\0\0\x1cftypavif", "image"),
        (b"\0\0\0\x1cftypisom", None),
        (b"\0\0\1\0\1\0\x10\x10", "image"),
        (b"\0\0\1\xba", None),
        (b"\x1f\x8b\x08", "gz"),
        (b"\x93NUMPY\x01\0", "npy"),
        (b"[1, 2]", None),
        (b"", None),
    ],
)
def test_content_is_known_by_its_first_bytes(data, kind):
    assert sniff(data) == kind
