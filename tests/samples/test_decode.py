"""Which decoder a part gets, and what becomes of an error."""

import gzip
import io
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from energon_nodes.core.errors import DecodeError, FatalSampleError, SkipSample, TrustError
from energon_nodes.samples.decode import REMEMBERED_NAMES, Decoder


def image(kind="PNG", size=(5, 4)):
    buffer = io.BytesIO()
    Image.new("RGB", size, (10, 20, 30)).save(buffer, kind)
    return buffer.getvalue()


def upper(data):
    return data.decode().upper()


def only_secrets(name, data):
    return f"{name}:{len(data)}" if name.endswith("secret") else NotImplemented


def test_a_sample_is_decoded_part_by_part_and_stays_as_it_was():
    sample = {
        "__key__": "a",
        "__sources__": b"kept",
        "txt": "ü".encode(),
        "json": b"[1]",
        "cls": b" 7\n",
        "bin": b"x",
        "": b"y",
    }
    before = dict(sample)
    decoded = Decoder()(sample)
    assert decoded == {"__key__": "a", "__sources__": b"kept", "txt": "ü", "json": [1], "cls": 7, "bin": b"x", "": b"y"}
    assert list(decoded) == list(before)
    assert sample == before


def test_values_that_are_not_bytes_pass_through():
    sample = {"__key__": "a", "txt": "done", "json": {"id": 1}, "jpg": None, "cls": 3}
    assert Decoder()(sample) == sample


def test_buffers_of_other_types_are_decoded_like_bytes():
    assert Decoder()({"txt": bytearray(b"a"), "json": memoryview(b"1"), "bin": bytearray(b"b")}) == {
        "txt": "a",
        "json": 1,
        "bin": bytearray(b"b"),
    }


def test_the_text_after_the_last_dot_decides_in_any_case_of_letters():
    decoded = Decoder(image="rgb8")({"left.JPG": image("JPEG"), "a.b.TXT": b"t", "Json": b"1", "0 (clean).Cls": b"2"})
    assert decoded.pop("left.JPG").shape == (4, 5, 3)
    assert decoded == {"a.b.TXT": "t", "Json": 1, "0 (clean).Cls": 2}


@pytest.mark.parametrize("name", ["mpg", "mpeg", "h5", "hdf", "bufr", "grib", "mp4", "wav", "ogg", "jpg2", "unknown"])
def test_parts_that_no_decoder_can_read_stay_bytes(name):
    assert Decoder(guess_content=True)({name: b"\0\0\1\xba"}) == {name: b"\0\0\1\xba"}


@pytest.mark.parametrize("name", "jpg jpeg png gif bmp webp tif tiff ppm jp2 ico tga".split())
def test_images_are_known_by_their_names(name):
    kind = {"jpg": "JPEG", "tif": "TIFF", "jp2": "JPEG2000"}.get(name, name.upper())
    assert Decoder(image="rgb8")({name: image(kind, (16, 16))})[name].shape == (16, 16, 3)


def test_image_none_leaves_images_as_bytes():
    data = image()
    assert Decoder(image=None)({"png": data, "txt": b"a"}) == {"png": data, "txt": "a"}
    assert Decoder(image=None, guess_content=True)({"bin": data}) == {"bin": data}


def test_gz_is_unpacked_and_the_rest_of_the_name_decides():
    sample = {
        "json.gz": gzip.compress(b"[1]"),
        "TXT.GZ": gzip.compress(b"t"),
        "gz": gzip.compress(b"raw"),
        "x.txt.gz.gz": b"",
    }
    sample["x.txt.gz.gz"] = gzip.compress(gzip.compress(b"twice"))
    sample["png.gz"] = gzip.compress(image())
    decoded = Decoder(image="rgb8")(sample)
    assert decoded.pop("png.gz").shape == (4, 5, 3)
    assert decoded == {"json.gz": [1], "TXT.GZ": "t", "gz": b"raw", "x.txt.gz.gz": "twice"}


def test_a_gz_bomb_is_stopped_at_the_limit():
    bomb = gzip.compress(b"\0" * 1_000_000)
    with pytest.raises(DecodeError, match=r"unpacks to more than 1000 bytes; if that is right, set inflate_limit="):
        Decoder(inflate_limit=1000)({"bin.gz": bomb})
    assert len(Decoder(inflate_limit=1_000_000)({"bin.gz": bomb})["bin.gz"]) == 1_000_000


def test_content_is_guessed_when_asked_for_and_the_name_decides_about_the_rest():
    array = io.BytesIO()
    np.save(array, np.arange(3))
    sample = {
        "txt": image(),
        "bin": gzip.compress(b"raw"),
        "json": gzip.compress(b"[1]"),
        "jpg": array.getvalue(),
        "cls": b"4",
        "text": b"BMW builds cars",
        "transcript": b"[music] P5 is a model",
        "txt.gz": gzip.compress(b"named as it is"),
    }
    decoded = Decoder(image="rgb8", guess_content=True)(sample)
    assert decoded.pop("txt").shape == (4, 5, 3)
    assert decoded.pop("jpg").tolist() == [0, 1, 2]
    assert decoded == {
        "bin": b"raw",
        "json": [1],
        "cls": 4,
        "text": "BMW builds cars",
        "transcript": "[music] P5 is a model",
        "txt.gz": "named as it is",
    }
    with pytest.raises(DecodeError, match="UnicodeDecodeError"):
        Decoder()({"txt": image()})


def test_guessing_unpacks_once_whatever_the_bytes_hold():
    inner = gzip.compress(b"deep")
    assert Decoder(guess_content=True)({"bin": gzip.compress(inner)}) == {"bin": inner}


def test_handlers_come_first_and_the_longest_end_of_the_name_wins():
    decode = Decoder(image="l8", handlers={"mask.png": len, ".TXT": upper, "secret": upper})
    data = image()
    decoded = decode(
        {
            "png": data,
            "left.Mask.PNG": data,
            "txt": b"a",
            "mask.png": data,
            "a.secret": b"s",
            "txt.gz": gzip.compress(b"z"),
        }
    )
    assert decoded.pop("png").shape == (4, 5)
    assert decoded == {"left.Mask.PNG": len(data), "txt": "A", "mask.png": len(data), "a.secret": "S", "txt.gz": "Z"}


def test_one_handler_function_may_leave_parts_to_the_built_in_ones():
    decode = Decoder(handlers=only_secrets)
    assert decode({"a.secret": b"xyz", "json": b"1", "bin": b"b"}) == {"a.secret": "a.secret:3", "json": 1, "bin": b"b"}
    assert Decoder(handlers=only_secrets, guess_content=True)({"a.secret": image()})["a.secret"].startswith("a.secret:")


def test_parts_restricts_decoding_to_the_names_given():
    data = {
        "json": b"1",
        "left.json": b"2",
        "json.gz": gzip.compress(b"3"),
        "txt": b"t",
        "pkl": b"p",
        "right.TXT": b"r",
    }
    assert Decoder(parts=["json", "right.txt"])(data) == {
        "json": 1,
        "left.json": 2,
        "json.gz": 3,
        "txt": b"t",
        "pkl": b"p",
        "right.TXT": "r",
    }
    assert Decoder(parts=[])(data) == data


def test_settings_that_cannot_work_are_refused_at_construction():
    for settings, message in [
        ({"image": "torchrgb16"}, "the image mode must be one of l8, rgb8"),
        ({"image": None, "resize": (2, 2)}, "image=None leaves images as bytes"),
        ({"resize": 224}, r"resize needs \(height, width\)"),
        ({"parts": "jpg"}, r"write parts=\['jpg'\]"),
        ({"handlers": 3}, "handlers needs a mapping or a function, got 3"),
        ({"handlers": {"txt": "utf-8"}}, r"handlers\['txt'\] must be a function"),
        ({"inflate_limit": -1}, "inflate_limit needs n >= 0 bytes"),
    ]:
        with pytest.raises(ValueError, match=message):
            Decoder(**settings)


@pytest.mark.parametrize(
    ("name", "data", "cause"),
    [
        ("cls", b"three", ValueError),
        ("json", b"{", json.JSONDecodeError),
        ("txt", b"\xff", UnicodeDecodeError),
        ("jpg", image("JPEG", (64, 64))[:-4], OSError),
        ("jpg", b"not an image", OSError),
        ("npy", b"not an array", ValueError),
        ("txt.gz", gzip.compress(b"cut short", mtime=0)[:-4], ValueError),
    ],
)
def test_an_error_names_part_sample_shard_and_remedy_and_is_chained_to_its_cause(name, data, cause):
    with pytest.raises(DecodeError) as caught:
        Decoder(image="rgb8")({"__key__": "k7", "__shard__": "s/0.tar", "bin": b"x", name: data})
    message = str(caught.value)
    assert f"part {name!r} of sample 'k7' in shard 's/0.tar'" in message
    assert type(caught.value.__cause__).__name__ in message
    for remedy in ("parts=", "handlers=", "on_error='skip'"):
        assert remedy in message
    assert isinstance(caught.value.__cause__, cause)


def test_an_image_with_too_many_pixels_is_a_decode_error(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    with pytest.raises(DecodeError, match="DecompressionBombError"):
        Decoder()({"png": image()})


@pytest.mark.parametrize("error", [SkipSample(), FatalSampleError("stop"), TrustError("no"), MemoryError()])
def test_requests_of_a_handler_pass_as_they_are_with_a_note(error):
    def raising(data):
        raise error

    with pytest.raises(type(error)) as caught:
        Decoder(handlers={"txt": raising})({"__key__": "a", "txt": b"x"})
    assert caught.value is error
    assert "part 'txt' of sample 'a'" in error.__notes__[0]


def test_any_other_error_of_a_handler_is_a_decode_error():
    with pytest.raises(DecodeError, match=r"part 'txt' cannot be decoded \(ZeroDivisionError"):
        Decoder(handlers={"txt": lambda data: 1 / 0})({"txt": b"x"})


def test_a_decoder_can_be_pickled_before_and_after_use():
    decode = Decoder(image="rgb8", resize=(2, 3), handlers={"txt": upper}, parts=frozenset(["txt", "png"]))
    sample = {"png": image(), "txt": b"a", "json": b"1"}
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(decode))
        for one in (decode, copy):
            decoded = one(sample)
            assert decoded["png"].shape == (2, 3, 3)
            assert (decoded["txt"], decoded["json"]) == ("A", b"1")


def test_a_decoder_shows_its_settings_and_refuses_changes():
    decode = Decoder(image="torch", resize=(2, 3))
    assert repr(decode) == "Decoder(image='torch', resize=(2, 3))"  # those that differ from their defaults
    with pytest.raises(AttributeError):
        decode.image = "pil"


def test_threads_share_a_decoder():
    decode = Decoder(image="rgb8", handlers=only_secrets)
    samples = [{"png": image(), f"{number % 7}.json": str(number).encode()} for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for number, decoded in enumerate(pool.map(decode, samples)):
            assert decoded[f"{number % 7}.json"] == number


def test_a_name_for_every_sample_does_not_fill_the_memory():
    decode = Decoder()
    for number in range(3 * REMEMBERED_NAMES):
        assert decode({f"{number}.cls": b"1"}) == {f"{number}.cls": 1}
    assert len(decode._plans) <= REMEMBERED_NAMES


def test_a_name_with_very_many_suffixes_is_an_error_and_not_a_hang():
    name = "txt" + ".gz" * 2000
    for guess in (False, True):
        with pytest.raises(DecodeError):
            Decoder(guess_content=guess)({name: b"x"})
