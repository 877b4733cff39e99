"""Real media files, made by Pillow and PyAV."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
from PIL import Image

SAMPLES = {"flt": np.float32, "s16": np.int16, "s32": np.int32}


def picture(form: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (7, 5), **options: Any) -> bytes:
    """Return a picture; `size` is width and height."""
    file = io.BytesIO()
    Image.new(mode, size).save(file, form, **options)
    return file.getvalue()


def movie(
    container: str,
    *,
    video: str | None = None,
    audio: str | None = None,
    frames: int = 30,
    fps: int = 25,
    size: tuple[int, int] = (64, 48),
    rate: int = 44100,
    layout: str = "stereo",
    seconds: float = 2.0,
) -> bytes:
    """Return a grey video of some frames, silence of some seconds, or both, encoded and in a container."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        streams: list[Any] = []
        if video is not None:
            stream: Any = output.add_stream(video, rate=fps)
            stream.width, stream.height = size
            stream.pix_fmt = "yuv420p"
            streams.append((stream, pictures(frames, size)))
        if audio is not None:
            stream = output.add_stream(audio, rate=rate, layout=layout)
            streams.append((stream, silence(stream.codec_context, rate, layout, round(seconds * rate))))
        for stream, content in streams:
            for frame in [*content, None]:
                output.mux(stream.encode(frame))
    return file.getvalue()


def pictures(count: int, size: tuple[int, int]) -> list[Any]:
    shape = (size[1], size[0], 3)
    return [av.VideoFrame.from_ndarray(np.full(shape, 7 * n % 256, np.uint8), format="rgb24") for n in range(count)]


def silence(context: Any, rate: int, layout: str, total: int) -> list[Any]:
    context.open()
    form, channels, length = context.format.name, 2 if layout == "stereo" else 1, context.frame_size or 1024
    frames: list[Any] = []
    for start in range(0, total, length):
        count = min(length, total - start)
        shape = (channels, count) if form.endswith("p") else (1, channels * count)
        frame = av.AudioFrame.from_ndarray(np.zeros(shape, SAMPLES[form.rstrip("p")]), format=form, layout=layout)
        frame.sample_rate, frame.pts = rate, start
        frames.append(frame)
    return frames
