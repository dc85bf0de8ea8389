"""What precisions of numbers are called in answers, and elsewhere."""

from __future__ import annotations

KNOWN = ("f64", "f32", "tf32", "f16", "bf16", "f8", "f8_e4m3", "f8_e5m2", "f4", "s8", "u8", "s4", "u4")
_KINDS = {
    "f": ("f", "fp", "float"),
    "bf": ("bf", "bfloat"),
    "tf": ("tf", "tfloat", "tensorfloat"),
    "s": ("s", "i", "int"),
    "u": ("u", "uint"),
}
_WORDS = {"double": "f64", "single": "f32", "float": "f32", "half": "f16"}
_NAMES = _WORDS | {
    name + ours[len(kind) :].replace("_", ""): ours
    for kind, names in _KINDS.items()
    for name in names
    for ours in KNOWN
    if ours.startswith(kind) and ours[len(kind)].isdigit()
}


def precision_called(name: str) -> str | None:
    """The precision that somebody calls so: "f32" of "FP32", "float32" and "f32"; None: none."""
    plain = name.strip().lower().removeprefix("torch.").removesuffix("fnuz").removesuffix("fn")
    return _NAMES.get(plain.replace("_", "").replace("-", "").replace(" ", ""))


def unknown(name: str) -> str:
    """What to say of a name that no known precision has."""
    return f"{name!r} is no precision that is known; these are: {', '.join(KNOWN)}"
