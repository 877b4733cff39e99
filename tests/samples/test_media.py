"""What media are like, from their headers: real files of every kind."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from energon_nodes.core.errors import DecodeError
from energon_nodes.samples.media import MediaFilter, media_metadata, media_rows
from tests.samples.media_files import movie, picture

EXTENSION = MediaFilter.parse("extension")


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        *(
            ("PNG", "RGB"),
            ("PNG", "RGBA"),
            ("PNG", "I;16"),
            ("PNG", "P"),
            ("JPEG", "CMYK"),
            ("JPEG", "L"),
            ("GIF", "P"),
        ),
        *(("TIFF", "RGB"), ("WEBP", "RGB"), ("BMP", "RGB"), ("JPEG2000", "RGB")),
    ],
)
def test_pictures_have_size_format_and_mode_as_stored(form: str, mode: str) -> None:
    data = picture(form, mode)
    assert media_metadata(data) == {"width": 7, "height": 5, "format": form, "mode": mode}


def test_only_the_beginning_of_a_picture_is_read(tmp_path: Path) -> None:
    whole = picture("PNG", size=(400, 300), compress_level=0)
    assert media_metadata(whole[:200])["width"] == 400
    MemoryFileSystem().pipe("/media_head.bin", whole)
    assert media_rows("memory://media_head.bin", [("a.png", 0, len(whole))], EXTENSION).rows[0][1] == "image"


def test_metadata_are_taken_from_bytes_paths_and_open_files(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture())
    expected = {"width": 7, "height": 5, "format": "PNG", "mode": "RGB"}
    with open(tmp_path / "a.png", "rb") as file:
        assert media_metadata(file) == expected
    assert media_metadata(str(tmp_path / "a.png")) == media_metadata(tmp_path / "a.png") == expected


VIDEO = {"video_duration": 1.2, "video_num_frames": 30, "video_fps": 25.0, "video_width": 64, "video_height": 48}


@pytest.mark.parametrize(
    ("container", "codec"),
    [("mp4", "mpeg4"), ("mov", "mpeg4"), ("avi", "mpeg4"), ("matroska", "mpeg4"), ("webm", "libvpx")],
)
def test_videos_have_length_frames_rate_and_size(container: str, codec: str) -> None:
    found = media_metadata(movie(container, video=codec), "av")
    assert list(found) == list(VIDEO)
    assert found == pytest.approx(VIDEO, abs=0.002)


@pytest.mark.parametrize(
    ("container", "codec", "rate", "layout", "padding"),
    [
        ("wav", "pcm_s16le", 16000, "mono", 0),
        ("flac", "flac", 44100, "stereo", 0),
        ("mp3", "libmp3lame", 44100, "stereo", 0),
        ("ipod", "aac", 44100, "stereo", 0),
        ("adts", "aac", 44100, "stereo", 2 * 1024),
        ("ogg", "libopus", 48000, "mono", 960),
        ("matroska", "aac", 48000, "mono", 2 * 1024),
    ],
)
def test_audio_has_length_channels_rate_and_samples(
    container: str, codec: str, rate: int, layout: str, padding: int
) -> None:
    found = media_metadata(movie(container, audio=codec, rate=rate, layout=layout), "av")
    assert list(found) == ["audio_duration", "audio_channels", "audio_sample_rate", "audio_num_samples"]
    assert found["audio_channels"] == (1 if layout == "mono" else 2)
    assert found["audio_sample_rate"] == rate
    assert found["audio_num_samples"] == round(found["audio_duration"] * rate)
    assert 0 <= found["audio_num_samples"] - 2 * rate <= padding


def test_a_file_with_both_has_both(tmp_path: Path) -> None:
    found = media_metadata(movie("mp4", video="mpeg4", audio="aac", seconds=1.2), "av")
    assert found == pytest.approx(
        {**VIDEO, "audio_duration": 1.2, "audio_channels": 2, "audio_sample_rate": 44100, "audio_num_samples": 52920}
    )


def test_the_picture_of_a_cover_is_no_video() -> None:
    import av

    file = io.BytesIO(movie("mp3", audio="libmp3lame"))
    covered = io.BytesIO()
    with av.open(file) as source, av.open(covered, "w", format="mp3") as target:
        sound: Any = target.add_stream_from_template(source.streams.audio[0])
        cover: Any = target.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 8, 8, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic
        for packet in source.demux():
            if packet.size:
                packet.stream = sound
                target.mux(packet)
        target.mux(cover.encode(av.VideoFrame(8, 8, "rgb24")))
        target.mux(cover.encode())
    with av.open(io.BytesIO(covered.getvalue())) as made:
        assert len(made.streams.video) == 1
    found = media_metadata(covered.getvalue(), "av")
    assert "video_width" not in found
    assert found["audio_num_samples"] == 88200


def test_broken_media_are_errors() -> None:
    for data, kind in ((b"no picture", "image"), (picture()[:20], "image"), (b"no movie" * 99, "av"), (b"", "av")):
        with pytest.raises(DecodeError, match=r"the header of the .* cannot be read"):
            media_metadata(data, kind)  # pyright: ignore[reportArgumentType]


def test_text_with_times_is_no_media() -> None:
    with pytest.raises(DecodeError):
        media_metadata(b"1\n00:00:01,000 --> 00:00:02,000\nHello\n", "av")


# ---- which files -----------------------------------------------------------------------------


def members(files: dict[str, bytes]) -> tuple[bytes, list[tuple[str, int, int]]]:
    data, places = b"", []
    for name, content in files.items():
        places.append((name, len(data) + 3, len(content)))
        data += b"---" + content
    return data, places


FILES = {
    "a.JPG": picture("JPEG"),
    "b.txt": picture("PNG"),
    "c": b"plain text",
    "d/e.wav": movie("wav", audio="pcm_s16le", seconds=0.5),
    "f.bin": movie("mp4", video="mpeg4"),
    "g.png": b"no picture",
    "h.gif": picture("PNG", "L"),
}


@pytest.mark.parametrize(
    ("media", "found", "bad"),
    [
        ("extension", {"a.JPG": "JPEG", "d/e.wav": 0.5, "h.gif": "PNG"}, ["g.png"]),
        ("header", {"a.JPG": "JPEG", "b.txt": "PNG", "d/e.wav": 0.5, "f.bin": None, "h.gif": "PNG"}, ["g.png"]),
        ("glob:*.JPG, d/*", {"a.JPG": "JPEG", "d/e.wav": 0.5}, []),
        ("glob:e.wav,c,f.*", {"d/e.wav": 0.5, "f.bin": None}, ["c"]),
    ],
)
def test_the_filter_decides_which_files_are_looked_at(
    tmp_path: Path, media: str, found: dict[str, Any], bad: list[str]
) -> None:
    data, places = members(FILES)
    (tmp_path / "all").write_bytes(data)
    rows, unreadable = media_rows(str(tmp_path / "all"), places, MediaFilter.parse(media))
    assert {
        name: json.loads(text).get("format") or json.loads(text).get("audio_duration") for name, _, text in rows
    } == found
    assert [kind for _, kind, _ in rows] == ["av" if name[0] in "df" else "image" for name, _, _ in rows]
    assert [line.partition(":")[0] for line in unreadable] == bad


def test_the_stored_text_is_compact() -> None:
    MemoryFileSystem().pipe("/media_text.png", picture())
    rows, _ = media_rows("memory://media_text.png", [("a.png", 0, len(picture()))], EXTENSION)
    assert rows == [("a.png", "image", '{"width":7,"height":5,"format":"PNG","mode":"RGB"}')]


@pytest.mark.parametrize("text", ["", "glob:", "glob: , ", "extensions", "*.jpg"])
def test_other_filters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r'media must be "extension", "header", or patterns'):
        MediaFilter.parse(text)


def test_a_filter_is_read_as_it_is_written() -> None:
    for text in ("extension", "header", "glob:*.jpg,a/*"):
        assert str(MediaFilter.parse(text)) == text
