"""What audio and video files are like, through PyAV: nothing is decoded."""

from __future__ import annotations

from typing import Any

from energon_nodes.core.errors import FatalSampleError

__all__ = ["av_metadata"]

_NEAR = 0.1  # s
_GUESSED = frozenset({"aac", "ac3", "mp3"})
"""Formats without an index: what FFmpeg gives as their duration may be a guess from the first frames."""


def av_metadata(file: Any) -> dict[str, Any]:
    """Read what an audio or video file is like: of its first video stream and its first audio stream.

    What the header says is taken. Where it does not say how many frames there are or how long they last, the packets
    are counted, which reads the file and decodes nothing. So `audio_num_samples` is duration times rate; the number
    that decoding gives, which Megatron-Energon stores, differs by a few frames of the encoder (1,024 samples each for
    AAC) where these pad the beginning or the end.

    Args:
        file: An open file that can be read and sought, or a path.

    Returns:
        Those of `video_duration` (s), `video_num_frames`, `video_fps`, `video_width`, `video_height`,
        `audio_duration` (s), `audio_channels`, `audio_sample_rate` (Hz) and `audio_num_samples` that are known.

    Raises:
        FatalSampleError: The extra `av` is not installed.
        ValueError: There is neither audio nor video in the file.
        av.error.FFmpegError: The content is broken.

    Example:
        >>> import io, wave
        >>> with wave.open(file := io.BytesIO(), "wb") as sound:
        ...     sound.setparams((1, 2, 16000, 0, "NONE", "not compressed"))
        ...     sound.writeframes(bytes(2 * 8000))
        >>> _ = file.seek(0)
        >>> av_metadata(file)
        {'audio_duration': 0.5, 'audio_channels': 1, 'audio_sample_rate': 16000, 'audio_num_samples': 8000}
    """
    try:
        import av
        from av.stream import Disposition
    except ImportError:
        raise FatalSampleError(
            "metadata of audio and video need PyAV: install energon_nodes[av], or leave such files out, as with "
            "media='glob:*.jpg,*.png'"
        ) from None
    with av.open(file) as container:
        streams: Any = container.streams
        # Pictures of covers are video streams too.
        videos = [stream for stream in streams.video if not stream.disposition & Disposition.attached_pic]
        video, audio = next(iter(videos), None), next(iter(streams.audio), None)
        if video is None and audio is None:
            raise ValueError("there is neither an audio nor a video stream in it")
        chosen = [stream for stream in (video, audio) if stream is not None]
        counted: dict[int, tuple[int, float]] = {}
        if any(_is_unknown(stream, container.format.name) for stream in chosen):
            counted = _count(container, chosen)
        found = {} if video is None else _of_video(video, counted)
        return found if audio is None else found | _of_audio(audio, counted)


def _is_unknown(stream: Any, form: str) -> bool:
    return stream.duration is None or form in _GUESSED or (stream.type == "video" and not stream.frames)


def _count(container: Any, streams: list[Any]) -> dict[int, tuple[int, float]]:
    """Return the number of packets of each stream, and how many seconds they last."""
    packets = {stream.index: 0 for stream in streams}
    lasting = {stream.index: 0 for stream in streams}
    first: dict[int, int] = {}
    end: dict[int, int] = {}
    for packet in container.demux(streams):
        if not packet.size:
            continue
        index, duration = packet.stream.index, packet.duration or 0
        packets[index] += 1
        lasting[index] += duration
        if packet.pts is not None:
            # What stands before 0 starts the decoder and is not shown or heard.
            first[index] = min(first.get(index, packet.pts), max(packet.pts, 0))
            end[index] = max(end.get(index, packet.pts), packet.pts + duration)
    bases = {stream.index: float(stream.time_base or 0) for stream in streams}
    return {
        index: (count, (end[index] - max(first[index], 0) if index in end else lasting[index]) * bases[index])
        for index, count in packets.items()
    }


def _duration(stream: Any, counted: dict[int, tuple[int, float]]) -> float | None:
    stated = None if stream.duration is None else float(stream.duration * stream.time_base)
    if stream.index not in counted:
        return stated
    real, form = counted[stream.index][1], stream.container.format.name
    if stated is None or form not in _GUESSED:
        return real if stated is None else stated
    # Headers of MP3 say what encoders added at both ends; those of the others say nothing.
    return stated if form == "mp3" and abs(stated - real) <= _NEAR else real


def _of_video(stream: Any, counted: dict[int, tuple[int, float]]) -> dict[str, Any]:
    rate = stream.average_rate or stream.guessed_rate
    found = {
        "video_duration": _duration(stream, counted),
        "video_num_frames": stream.frames or counted.get(stream.index, (None,))[0],
        "video_fps": float(rate) if rate else None,
        "video_width": stream.codec_context.width or None,
        "video_height": stream.codec_context.height or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_audio(stream: Any, counted: dict[int, tuple[int, float]]) -> dict[str, Any]:
    context = stream.codec_context
    duration, rate = _duration(stream, counted), context.sample_rate or None
    found = {
        "audio_duration": duration,
        "audio_channels": context.channels or None,
        "audio_sample_rate": rate,
        "audio_num_samples": round(duration * rate) if duration is not None and rate else None,
    }
    return {name: value for name, value in found.items() if value is not None}
