"""Text that nobody wrote, in the shape of text that somebody did: each letter becomes another letter, as wide as it.

What a letter becomes hangs on all that stands before it, and on a key that is thrown away: two texts that begin alike
are disguised alike so far, two that differ stay different, and no text can be had back. So a reply that comes in pieces
is disguised as the same reply in one, and ids still fit together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache
from hashlib import blake2b
from importlib import resources

from attrs import field, frozen

from fsm_loop.testing.wire.scan import found_in, units, written

LETTERS = {
    2: "àáâãäåæçèéêëìíîïñòóôõöøùúûüý",
    3: "山川田日月火水木金土人大小中上下",
    4: "𠀀𠀁𠀂𠀃𠀄𠀅𠀆𠀇",
}  # by their bytes in UTF-8
LONGEST_NUMBER = 4  # digits of a number that says nothing of anybody
LONGEST_ERROR_NUMBER = 7  # of one in a provider's error: limits and counts of tokens
SHORTEST_SECRET = 6  # characters of a credential that is looked for by its value

MOST_KNOWN = 10_000  # texts whose disguise is remembered: a case is written anew whenever an answer is over

_DIGEST = 16
_ID = re.compile(r"((?:call|toolu|msg|resp|rs|fc|chatcmpl|item|req)[_-])?(.*)", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+|\d+")
_EMAIL = r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
_CREDENTIAL = (
    r"\b(?:sk|pk|rk|gsk|xai|key|hf|ghp|gho|ghs|github_pat|glpat|xox[a-z]|AKIA|AIza|org|proj|user)[-_A-Za-z0-9]{8,}"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+)*"
    r"|(?<=[Bb]earer )\S+|(?<=[Bb]asic )[\w+/=-]{8,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?<=[?&])[^\s\"'<>]*"
)
_SECRET = re.compile(_CREDENTIAL)
_PERSONAL = re.compile(f"{_EMAIL}|{_CREDENTIAL}")
_PLAIN_WORDS = frozenset({"true", "false", "null", "True", "False", "None", "NaN", "Infinity"})


@cache
def error_words() -> frozenset[str]:
    """The words of which errors of providers consist: any other word of an error may be somebody's."""
    return frozenset(resources.files("fsm_loop.testing.wire").joinpath("error_words.txt").read_text("utf-8").split())


@frozen
class Disguise:
    """One disguise, the same for all texts; *secrets* are credentials whose values are known.

    With *keep_text* texts stay as they are, and only credentials are disguised.
    """

    key: bytes = field(repr=False)
    secrets: Collection[str] = field(default=(), repr=False)
    keep_text: bool = False

    def text(self, text: str) -> str:
        """A text of anybody's."""
        return self._without(text, _SECRET) if self.keep_text else self.turned(text)

    def id(self, text: str) -> str:
        """An id; what kind of id it is can still be seen."""
        if self.keep_text:
            return self._without(text, _SECRET)
        found = _ID.fullmatch(text)
        assert found is not None
        return (found[1] or "") + self.turned(found[2])

    def error(self, text: str, known: Collection[str]) -> str:
        """What a provider says of a failure: its words stay where errors are made of them, or are *known*."""
        if self.keep_text:
            return self._without(text, _SECRET)

        def word(found: re.Match[str]) -> str:
            word = found[0]
            if word.isdigit():
                return word if len(word) <= LONGEST_ERROR_NUMBER else self.turned(word)
            return word if word.lower() in error_words() or word in known else self.turned(word)

        parts, at = [], 0
        for start, end in self._spans(text, _PERSONAL):
            parts += [_WORD.sub(word, text[at:start]), self.turned(text[start:end])]
            at = end
        return "".join((*parts, _WORD.sub(word, text[at:])))

    def name(self, text: str, names: Collection[str]) -> str:
        """The name of a tool, whole or a piece of it; one that nobody has offered is somebody's text."""
        left = text
        for each in sorted(names, key=len, reverse=True):
            left = left.replace(each, "")
        is_known = any(text in each for each in names) or not any(map(str.isalnum, left))
        return text if is_known else self.text(text)

    def json(self, text: str, names: Collection[str]) -> str:
        """Arguments, as the JSON that they should be: the keys that tools have stay, and the shape of all."""
        if self.keep_text:
            return self._without(text, _SECRET)
        chars = list(text)
        for found in found_in(text):
            raw = text[found.start : found.end]
            match found.kind:
                case "number":
                    chars[found.start : found.end] = self.number(raw)
                case "word":
                    chars[found.start : found.end] = raw if raw in _PLAIN_WORDS else self.turned(raw)
                case _:
                    pairs = units(raw)
                    value = "".join(character for _, character in pairs)
                    if found.kind == "string" or value not in names:
                        new = (
                            self.json(value, names)
                            if value.lstrip().startswith(("{", "[", '"'))
                            else self.turned(value)
                        )
                        chars[found.start : found.end] = "".join(
                            written(unit, each) for (unit, _), each in zip(pairs, new, strict=True)
                        )
        return "".join(chars)

    def number(self, text: str) -> str:
        """A number, still one: a long one may be a telephone's or an account's."""
        if sum(map(str.isdigit, text)) <= LONGEST_NUMBER or self.keep_text:
            return text
        head, mark, exponent = text.partition("e")
        return re.sub(r"^(-?)0(?=\d)", r"\g<1>9", self.turned(head)) + mark + exponent

    def turned(self, text: str) -> str:
        """The text, letter by letter another one."""
        return _turned(text, self.key)

    def is_secret(self, text: str) -> bool:
        """Whether a credential stands in the text."""
        return any(True for _ in self._spans(text, _SECRET))

    def _without(self, text: str, pattern: re.Pattern[str]) -> str:
        chars = list(text)
        for start, end in self._spans(text, pattern):
            chars[start:end] = self.turned(text[start:end])
        return "".join(chars)

    def _spans(self, text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Where something stands that must not, one behind the other."""
        found = [each.span() for each in pattern.finditer(text) if each[0]]
        for secret in self.secrets:
            found += [each.span() for each in re.finditer(re.escape(secret), text)]
        yield from _joined(found)


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    last: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if last is not None and start <= last[1]:
            last = (last[0], max(end, last[1]))
            continue
        if last is not None:
            yield last
        last = (start, end)
    if last is not None:
        yield last


@lru_cache(MOST_KNOWN)
def _turned(text: str, key: bytes) -> str:
    state, turned = key, []
    for char in text:
        turned.append(_letter(char, int.from_bytes(state[:4])))
        state = blake2b(state + char.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
    return "".join(turned)


def _letter(char: str, number: int) -> str:
    """Another letter or digit of the same kind and width; what is neither stays."""
    for first, many in (("a", 26), ("A", 26), ("0", 10)):
        place = ord(char) - ord(first)
        if 0 <= place < many:
            return chr(ord(first) + (place + 1 + number % (many - 1)) % many)
    if not char.isalnum():
        return char
    pool = LETTERS[len(char.encode())]
    return pool[(ord(char) + number) % len(pool)]
