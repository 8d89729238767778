"""A resource while it is converted: no leaf of the source gets lost without a note; pure.

    source format --> **draft**: takes values out of the source, puts them into the result
                      `--> settle: the result as an API server accepts it --> Conversion

Every leaf of the source is open at first. `take`, `change`, `leave` and `lose` close it; `settle`
reports the leaves that are still open as lost, and values that the schema refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from moorage_cli.manifests.lint import Schemas, resource_problems
from moorage_cli.manifests.structural import Problem

from .conversion import Conversion, ConversionError, Fate, Note
from .fields import Field, Path, field_of, parse_path, written_path

__all__ = ["Draft", "mapping_of"]

_ORDER = ("apiVersion", "kind", "metadata", "spec")
_SPEC_ORDER = (
    "image", "formats", "model", "runtime", "protocol", "transport", "replicas", "scaling",
    "suspend", "paths", "health", "contract", "rollout", "podTemplate",
)  # fmt: skip


class Draft:
    """One resource: the leaves of the source that are open, the result, and the notes.

    Args:
        value: The source, of JSON types.
        fields: The declared fields of its format.
    """

    def __init__(self, value: Mapping[str, Any], fields: Sequence[Field]) -> None:
        self.result: dict[str, Any] = {}
        self.notes: list[Note] = []
        self._value = value
        self._fields = fields
        self._open = dict(_leaves(value, ()))
        self._origins: dict[Path, list[Path]] = {}

    def get(self, *path: str | int) -> Any:
        """The value of a field, which stays open; None if it is absent."""
        return _at(self._value, path)

    def text(self, *path: str | int) -> str | None:
        """The string of a field, which stays open; a value of another type is lost."""
        value = self.get(*path)
        if value is not None and not isinstance(value, str):
            self.lose(path, "must be a string")
            return None
        return value

    def number(self, *path: str | int) -> int | None:
        """The whole number of a field, which stays open; a value of another type is lost."""
        value = self.get(*path)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            self.lose(path, "must be a whole number")
            return None
        return value

    def keys(self, *path: str | int) -> list[str]:
        """The names in an object of the source."""
        return list(mapping_of(self.get(*path)))

    def items(self, *path: str | int) -> list[Any]:
        """The items of a list of the source."""
        value = self.get(*path)
        return cast("list[Any]", value) if isinstance(value, list) else []

    def is_open(self, path: Path) -> bool:
        """Whether a field has leaves of which nothing is decided."""
        return any(leaf[: len(path)] == path for leaf in self._open)

    def is_declared(self, path: Path) -> bool:
        """Whether the format declares exactly this field."""
        return any(parse_path(field.path) == path for field in self._fields)

    def take(self, *path: str | int) -> Any:
        """The open leaves of a field, which are carried over; the whole value if all are open."""
        value = self._open_part(path, self.get(*path))
        self._close(path)
        return value

    def move(self, path: Path, target: str) -> None:
        """Carry a value over as it is."""
        if self.is_open(path):
            self.put(target, self.take(*path), path)

    def put(self, target: str, value: Any, origin: Path = ()) -> None:
        """Set a field of the result; a field of the source that it replaces is lost.

        Args:
            target: Its path; objects above it are created.
            value: Its value.
            origin: The field of the source that it comes from.
        """
        path = parse_path(target)
        before = _at(self.result, path)
        if origin and before is not None and before != value:
            for replaced in self._origins.pop(path, []):
                sentence = f"{target} comes from {written_path(origin)}"
                self.tell_loss(replaced, sentence)
        self._set(path, value, origin)

    def append(self, target: str, items: Sequence[Any], origin: Path) -> None:
        """Set a list of the result that holds what it held before, and more."""
        self._set(parse_path(target), list(items), origin)

    def _set(self, path: Path, value: Any, origin: Path) -> None:
        below: dict[str, Any] = self.result
        for part in path[:-1]:
            below = below.setdefault(str(part), {})
        below[str(path[-1])] = deepcopy(value)  # later fields may be added to it
        if origin:
            self._origins.setdefault(path, []).append(origin)

    def change(self, path: Path, sentence: str) -> None:
        """Close a field that is carried over with a change."""
        self._note(path, Fate.CHANGED, sentence)

    def leave(self, path: Path, sentence: str) -> None:
        """Close a field that the result does not need."""
        self._note(path, Fate.UNNEEDED, sentence)

    def skip(self, path: Path, sentence: str) -> None:
        """Close a field that the result does not need, and whose value nobody set."""
        if self.is_open(path):
            self.notes.append(Note(written_path(path), None, Fate.UNNEEDED, sentence))
            self._close(path)

    def lose(self, path: Path, sentence: str = "") -> None:
        """Close a field that is not carried over; by default, the declared field says why.

        An empty list loses nothing. An empty object can, because the presence of some fields, such
        as a batcher, has a meaning by itself.
        """
        if self.get(*path) == []:
            self._close(path)
            return
        if not sentence:
            _, field = field_of(self._fields, path)
            sentence = (field or Field("")).loss
        self._note(path, Fate.LOST, sentence)

    def tell(self, sentence: str) -> None:
        """Add a sentence about the result, such as a default that differs."""
        self.notes.append(Note("", None, Fate.CHANGED, sentence))

    def tell_loss(self, path: Path, sentence: str) -> None:
        """Report a field as lost that was taken out of the source already."""
        self.notes.append(Note(written_path(path), self.get(*path), Fate.LOST, sentence))

    def settle(self, schemas: Schemas) -> Conversion:
        """The result as an API server accepts it, and what became of every leaf.

        Raises:
            ConversionError: The result breaks a rule, and no single value is the reason.
        """
        for leaf in list(self._open):
            if leaf in self._open:
                path, field = field_of(self._fields, leaf)
                if self._open[leaf] == {} and field and field.target:
                    self._close(leaf)  # without a value, there is nothing to carry over
                    continue
                self.lose(path if field and not field.target else leaf)
        resource = self._ordered()
        while found := resource_problems(resource, schemas):
            if not self._drop(found):
                sentence = "; ".join(f"{item.path}: {item.message}" for item in found)
                losses = "".join(f"; {note}" for note in self.notes if note.fate is Fate.LOST)
                raise ConversionError(f"the result would be refused: {sentence}{losses}")
            resource = self._ordered()
        order = (Fate.UNNEEDED, Fate.CHANGED, Fate.LOST)
        notes = sorted(self.notes, key=lambda note: order.index(note.fate))
        return Conversion((resource,), tuple(notes))

    def _drop(self, found: Sequence[Problem]) -> bool:
        """Remove the values that the schema refuses; whether there was one.

        A rule about several values names the object above them, which is removed as a whole.
        """
        for problem in found:
            at = parse_path(problem.path)
            targets = [target for target in self._origins if at[: len(target)] == target]
            is_section = not targets and len(at) > 1
            if is_section:
                targets = [target for target in self._origins if target[: len(at)] == at]
            for target in targets:
                for origin in self._origins.pop(target):
                    value = self.get(*origin)
                    self.notes.append(
                        Note(written_path(origin), value, Fate.LOST, problem.message)
                    )
                _remove(self.result, target)
            if is_section and targets:
                _remove(self.result, at)
            if targets:
                return True
        return False

    def _note(self, path: Path, fate: Fate, sentence: str) -> None:
        if self.is_open(path):
            value = self._open_part(path, self.get(*path))
            self.notes.append(Note(written_path(path), value, fate, sentence))
            self._close(path)

    def _close(self, path: Path) -> None:
        self._open = {
            leaf: value for leaf, value in self._open.items() if leaf[: len(path)] != path
        }

    def _open_part(self, path: Path, value: Any) -> Any:
        """A value of the source without its closed leaves."""
        if isinstance(value, Mapping) and value:
            items = cast("Mapping[str, Any]", value).items()
            return {
                name: self._open_part((*path, name), item)
                for name, item in items
                if self.is_open((*path, name))
            }
        if isinstance(value, list) and value:
            return [
                self._open_part((*path, at), item)
                for at, item in enumerate(cast("list[Any]", value))
                if self.is_open((*path, at))
            ]
        return value

    def _ordered(self) -> dict[str, Any]:
        spec = self.result.get("spec", {})
        ordered = {name: spec[name] for name in (*_SPEC_ORDER, *spec) if name in spec}
        whole = {**self.result, "spec": ordered}
        return {name: whole[name] for name in _ORDER if name in whole}


def mapping_of(value: object) -> Mapping[str, Any]:
    """A mapping as it is, and an empty one in place of anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Scalars and empty collections; null counts as absent, as for an API server."""
    if isinstance(value, Mapping) and value:
        for name, item in cast("Mapping[str, Any]", value).items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list) and value:
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _leaves(item, (*path, at))
    elif value is not None:
        yield path, value


def _at(value: Any, path: Path) -> Any:
    for part in path:
        if isinstance(value, Mapping) and isinstance(part, str):
            value = cast("Mapping[str, Any]", value).get(part)
        elif isinstance(value, list) and isinstance(part, int):
            items = cast("list[Any]", value)
            value = items[part] if part < len(items) else None
        else:
            return None
    return value


def _remove(result: dict[str, Any], path: Path) -> None:
    """Remove a field, and objects that this leaves empty."""
    name = str(path[0])
    if len(path) > 1 and isinstance(below := result.get(name), dict):
        below = cast("dict[str, Any]", below)
        _remove(below, path[1:])
        if below:
            return
    result.pop(name, None)
