"""The types of samples: captioned images, questions about them, interleaved documents, and others.

They have the names and fields of Megatron-Energon's, so that code written for those works with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energon_nodes.samples.sample import Sample

if TYPE_CHECKING:
    import torch  # two seconds, which preparing a dataset of these types need not pay

__all__ = [
    "CaptioningSample",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "SimilarityInterleavedSample",
    "TextSample",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
]


@dataclass(kw_only=True, slots=True)
class CaptioningSample(Sample):
    """Hold an image and what it shows.

    Example:
        >>> import torch
        >>> CaptioningSample(__key__="a", image=torch.zeros(3, 4, 4), caption="a cat").caption
        'a cat'

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
        caption: What it shows.
    """

    image: torch.Tensor
    caption: str


@dataclass(kw_only=True, slots=True)
class ImageSample(Sample):
    """Hold an image alone.

    Example:
        >>> import torch
        >>> ImageSample(__key__="a", image=torch.zeros(3, 4, 4)).image.shape
        torch.Size([3, 4, 4])

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
    """

    image: torch.Tensor


@dataclass(kw_only=True, slots=True)
class ImageClassificationSample(Sample):
    """Hold an image and its class.

    Example:
        >>> import torch
        >>> ImageClassificationSample(__key__="a", image=torch.zeros(3, 4, 4), label=3).label
        3

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
        label: The number of the class.
        label_name: The name of the class.
    """

    image: torch.Tensor
    label: int | None = None
    label_name: str | None = None


@dataclass(kw_only=True, slots=True)
class TextSample(Sample):
    """Hold a text.

    Example:
        >>> TextSample(__key__="a", text="Once upon a time").text
        'Once upon a time'

    Args:
        text: The text.
    """

    text: str


@dataclass(kw_only=True, slots=True)
class InterleavedSample(Sample):
    """Hold a document of texts and images, in their order.

    Example:
        >>> import torch
        >>> sample = InterleavedSample(__key__="a", sequence=["A cat:", torch.zeros(3, 4, 4), "and a dog."])
        >>> [type(piece).__name__ for piece in sample.sequence]
        ['str', 'Tensor', 'str']

    Args:
        sequence: Texts, and images as tensors of shape (C, H, W).
    """

    sequence: list[torch.Tensor | str]


@dataclass(kw_only=True, slots=True)
class SimilarityInterleavedSample(Sample):
    """Hold images and texts of a document with the similarity of each pair, from which their order can be made.

    Example:
        >>> import torch
        >>> sample = SimilarityInterleavedSample(
        ...     __key__="a", images=[torch.zeros(3, 4, 4)], texts=["one", "two"], similarity_matrix=torch.rand(1, 2)
        ... )
        >>> sample.matched_text_indices is None
        True

    Args:
        images: Tensors of shape (C, H, W), in any order.
        texts: The texts, in their order.
        audio: Pieces of audio.
        video: Pieces of video.
        similarity_matrix: Shape (images, texts), float: how well each image goes with each text.
        matched_text_indices: For each image, the number of the text it belongs to.
    """

    images: list[torch.Tensor]
    texts: list[str]
    audio: list[Any] | None = None
    video: list[Any] | None = None
    similarity_matrix: torch.Tensor | None = None
    matched_text_indices: list[int] | None = None


@dataclass(kw_only=True, slots=True)
class VQASample(Sample):
    """Hold an image, a question about it, and its answers.

    Example:
        >>> import torch
        >>> VQASample(__key__="a", image=torch.zeros(3, 4, 4), context="What is it?", answers=["a cat"]).answers
        ['a cat']

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
        context: The question, or what stands before the answer.
        answers: The answers that are right.
        answer_weights: Shape (answers,), float: how right each is.
    """

    image: torch.Tensor
    context: str
    answers: list[str] | None = None
    answer_weights: torch.Tensor | None = None


@dataclass(kw_only=True, slots=True)
class MultiChoiceVQASample(Sample):
    """Hold an image, a question about it, and answers to choose from.

    Example:
        >>> import torch
        >>> sample = MultiChoiceVQASample(
        ...     __key__="a", image=torch.zeros(3, 4, 4), context="Is it a cat?", choices=["yes", "no"]
        ... )
        >>> sample.choices[sample.correct_choice_idx]
        'yes'

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
        context: The question.
        choices: The answers to choose from.
        correct_choice_idx: The number of the right one.
    """

    image: torch.Tensor
    context: str
    choices: list[str] | None = None
    correct_choice_idx: int = 0


@dataclass(kw_only=True, slots=True)
class VidQASample(Sample):
    """Hold a video, a question about it, and its answers.

    Example:
        >>> VidQASample(__key__="a", video=b"...", context="Who wins?").answers is None
        True

    Args:
        video: The video as the pipeline decodes it: bytes, a decoder, or frames of shape (N, C, H, W).
        context: The question.
        answers: The answers that are right.
        answer_weights: Shape (answers,), float: how right each is.
    """

    video: Any
    context: str
    answers: list[str] | None = None
    answer_weights: torch.Tensor | None = None


@dataclass(kw_only=True, slots=True)
class OCRSample(Sample):
    """Hold an image and the text on it, with the place of each block, line, word and character.

    Boxes have shape (N, 4) or (N, 5), float: x, y, width, height, and perhaps a confidence.

    Example:
        >>> import torch
        >>> sample = OCRSample(
        ...     __key__="a", image=torch.zeros(1, 8, 40), text="two words", words_boxes=torch.zeros(2, 4)
        ... )
        >>> len(sample.words_boxes)
        2

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
        text: All text on it.
        block_boxes: The boxes of blocks of text.
        block_classes: Shape (blocks,), or names: what each block is.
        block_text: The text of each block.
        lines_boxes: The boxes of lines.
        lines_text: The text of each line.
        words_boxes: The boxes of words.
        words_text: The text of each word.
        chars_boxes: The boxes of characters.
        chars_text: The text of each character.
    """

    image: torch.Tensor
    text: str
    block_boxes: torch.Tensor | None = None
    block_classes: torch.Tensor | list[str] | None = None
    block_text: list[str] | None = None
    lines_boxes: torch.Tensor | None = None
    lines_text: list[str] | None = None
    words_boxes: torch.Tensor | None = None
    words_text: list[str] | None = None
    chars_boxes: torch.Tensor | None = None
    chars_text: list[str] | None = None


@dataclass(kw_only=True, slots=True)
class VQAOCRSample(Sample):
    """Hold an image, the text on it, and a question about both.

    Example:
        >>> import torch
        >>> VQAOCRSample(__key__="a", image=torch.zeros(3, 4, 4), context="What does it say?", text="STOP").text
        'STOP'

    Args:
        image: The picture: a tensor of shape (C, H, W), uint8 or float32 in 0..1 as decoded, or a PIL image.
        context: The question.
        text: All text on the image.
        answers: The answers that are right.
        answer_weights: Shape (answers,), float: how right each is.
        words_boxes: Shape (words, 4) or (words, 5), float: x, y, width, height, and perhaps a confidence.
        words_text: The text of each word.
    """

    image: torch.Tensor
    context: str
    text: str
    answers: list[str] | None = None
    answer_weights: torch.Tensor | None = None
    words_boxes: torch.Tensor | None = None
    words_text: list[str] | None = None
