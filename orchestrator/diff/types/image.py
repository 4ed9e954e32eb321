"""Images: size, changed pixels and their box, and how different they look.

How different two pixels look is their distance in YIQ, weighted as Kotsarenko and Ramos measured
("Measuring perceived color difference using YIQ NTSC transmission color space in mobile
applications", 2010), as a share of the largest possible distance.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from orchestrator.diff import limits
from orchestrator.diff.blob import Blob
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Skipped, Unreadable

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# Formats whose decoders are simple and in wide use; others are refused before they are decoded.
_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
_MOST_BYTES = 256 << 20
_YIQ = np.array(
    [[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], np.float32
)
_WEIGHTS = np.array([0.5053, 0.299, 0.1957], np.float32)
_LARGEST = 35215.0
# Below this share a person does not see a difference; renderers differ by that much.
_VISIBLE = 0.01
_BAND_ROWS = 256


def compare(pair: Pair) -> Record:
    """Compare two images pixel by pixel; of another size nothing more is compared."""
    (a, frames_a), (b, frames_b) = pair.read(lambda blob: _decode(blob, pair.limits.image_pixels))
    allowed = pair.rule.pixels
    tolerance = "" if allowed is None else f"{allowed:.4g} of the pixels"
    if a.shape != b.shape:
        return pair.record(
            "different", locations=[Location("size", _size(a), _size(b))], tolerance=tolerance
        )
    changed, look = _differences(a, b)
    count = int(np.count_nonzero(changed))
    share = count / changed.size
    places = [Location(_box(changed))] if count else []
    status: Status = "equal"
    if frames_a != frames_b:
        status = "different"
        places.append(Location("frames", str(frames_a), str(frames_b)))
    elif count:
        status = "within" if allowed is not None and share <= allowed else "different"
    notes = [] if count or status == "different" else ["the bytes differ, the pixels do not"]
    notes += ["the first frame is compared"] if max(frames_a, frames_b) > 1 else []
    return pair.record(
        status,
        metrics={
            "pixels": changed.size,
            "changed_pixels": count,
            "changed_share": share,
            "visible_share": float(np.count_nonzero(look > _VISIBLE)) / changed.size,
            "perceptual_max": float(look.max()),
            "perceptual_mean": float(look.mean()),
        },
        locations=places,
        note="; ".join(notes),
        tolerance=tolerance,
    )


def check(pair: Pair) -> None:
    _decode(pair.a, pair.limits.image_pixels)


def overlay(a: Blob, b: Blob) -> bytes:
    """A PNG of B in pale grey with every changed pixel in red, darker where it is seen more.

    Raises:
        Unreadable: a side is no image, or the sizes differ.
        Skipped: a side has more pixels than are decoded.
    """
    one, two = (_decode(blob, limits.DEFAULT.image_pixels)[0] for blob in (a, b))
    if one.shape != two.shape:
        raise Unreadable(f"sizes differ: {_size(one)} and {_size(two)}")
    changed, look = _differences(one, two)
    grey = two[..., :3].astype(np.float32).mean(axis=2)
    shown = np.repeat((255 - (255 - grey) * 0.25)[..., None], 3, axis=2)
    strength = 0.5 + 0.5 * np.sqrt(look[changed])[:, None]
    shown[changed] = np.array([255, 0, 0], np.float32) * strength
    target = io.BytesIO()
    Image.fromarray(shown.astype(np.uint8)).save(target, "PNG")
    return target.getvalue()


def _decode(blob: Blob, most_pixels: int) -> tuple[Pixels, int]:
    """The first frame as rows of RGBA, and the number of frames."""
    content = blob.read(_MOST_BYTES)
    try:
        with warnings.catch_warnings():
            # Pillow warns of large images; our own limit decides.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                if image.width * image.height > most_pixels:
                    raise Skipped(f"has {image.width} x {image.height} pixels")
                frames = int(getattr(image, "n_frames", 1))
                return np.asarray(image.convert("RGBA")), frames
    except Image.DecompressionBombError as error:
        raise Skipped(f"is too large to be decoded: {error}") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        raise Unreadable(f"is no image: {_without_address(error)}") from error
    except (IndexError, KeyError, TypeError, OverflowError, NotImplementedError) as error:
        # Pillow's decoders let some malformed headers through to Python's own errors.
        raise Unreadable(f"is no image that can be decoded: {error!r}") from error


def _without_address(error: Exception) -> str:
    return str(error).split("<_io")[0].strip() or type(error).__name__


def _differences(a: Pixels, b: Pixels) -> tuple[Mask, npt.NDArray[np.float32]]:
    """Which pixels differ, and how much each is seen to differ (0 to 1)."""
    changed: Mask = (a != b).any(axis=2)
    look = np.zeros(changed.shape, np.float32)
    # Band by band: float copies of a whole large image would take gigabytes.
    for top in range(0, a.shape[0], _BAND_ROWS):
        band = slice(top, top + _BAND_ROWS)
        here = changed[band]
        if here.any():
            apart = _on_white(a[band][here]) - _on_white(b[band][here])
            weighted = (apart @ _YIQ.T) ** 2 @ _WEIGHTS
            look[band][here] = np.sqrt(np.minimum(weighted / _LARGEST, 1.0))
    return changed, look


def _on_white(pixels: Any) -> npt.NDArray[np.float32]:
    colours = pixels[:, :3].astype(np.float32)
    opacity = pixels[:, 3:4].astype(np.float32) / 255
    return np.asarray(255 + (colours - 255) * opacity)


def _box(changed: Mask) -> str:
    """The box around all changed pixels: its size, and its upper left corner."""
    rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
    height, width = int(rows[-1] - rows[0]) + 1, int(columns[-1] - columns[0]) + 1
    return f"{width} x {height} pixels from ({int(columns[0])}, {int(rows[0])})"


def _size(pixels: Pixels) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]}"
