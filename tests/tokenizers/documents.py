"""Documents that are hard for tokenizers: a fixed list, and as many more as are asked for, drawn from a seed."""

import random

HARD = [
    "", " ", "  ", "\n", "\n\n\n", "\t\tx", " leading", "trailing ", "  two  spaces  ", "\r\n\r\nline ends\r",
    "The quick brown fox jumps over the lazy dog.", "don't can't I'll we've he'd I'm you're THEY'RE it'S",
    "1 12 123 1234 12345 3.14159 1,000,000 ١٢٣ ४५६ ½ ²³", "x=y+z; if (a[i] != b->c) { return *p++; } // end",
    "café cafe\u0301 \u00c5 A\u030a \u212b ﬁ ﬀ Ⅷ ㎏", "a\u0300\u0301\u0302\u0303\u0304 Z̷͈̱a̴͚l̶g̵o̸",
    "😀 😀😀 👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ 1️⃣", "日本語の文章。中文句子，没有空格。한국어 문장입니다.", "Привет, мир! Γειά σου Κόσμε",
    "שלום עולם مرحبا بالعالم", "हिन्दी में वाक्य ภาษาไทยไม่มีช่องว่าง", "𝒜𝓁𝓅𝒽𝒶 𐍈 𠜎𠜱 \U0010fffd",
    "\u00a0no-break\u2003em\u3000wide\u200bzero\u2060width\ufeff", "\u0000\u0001\u0007\u001b[0m\u007f", "\u0085\u2028\u2029",
    "<s></s><unk> <|endoftext|>text<|endoftext|> <|begin_of_text|> <|im_start|>user\nhi<|im_end|>", "<|custom|>added <|CUSTOM|>",
    "<0x41> <0xFF> ▁under ▁▁score Ġbyte Ċ", "a" * 5000, "ab" * 3000, "é" * 2000, "😀" * 500, "1" * 3000, " " * 3000, "\n" * 500,
    "word " * 1000, "x" * 200 + " " + "y" * 200, "İstanbul ISTANBUL ıi ßẞ ς σ Σ", "ﷺ ﷽ ⁉ … — – ‘’ “” „“", "\ufffd replaced",
]

RANGES = [(0x20, 0x7e, 60), (0xa0, 0x24f, 8), (0x300, 0x36f, 3), (0x370, 0x5ff, 4), (0x600, 0x6ff, 3), (0x900, 0x97f, 3),
          (0xe00, 0xe7f, 2), (0x1100, 0x11ff, 1), (0x2000, 0x206f, 3), (0x20a0, 0x2bff, 3), (0x3040, 0x30ff, 3),
          (0x4e00, 0x9fff, 4), (0xac00, 0xd7a3, 2), (0xe000, 0xe0ff, 1), (0xfb00, 0xfdff, 1), (0xfe00, 0xffff, 1),
          (0x1d400, 0x1d7ff, 1), (0x1f300, 0x1faff, 4), (0x20000, 0x2a6df, 1), (0, 0x1f, 1), (0x80, 0x9f, 1)]
WORDS = ("the of and to in swarm stage worker gradient token it's don't 2024 3.14 x_i foo() http://a.b/c?d=e "
         "naïve Straße été мир 世界 मन 🙂 <|endoftext|> </s> \n \n\n \t").split(" ")


def character(rng):
    low, high, _ = rng.choices(RANGES, [weight for _, _, weight in RANGES])[0]
    return chr(rng.randint(low, high))


def document(rng):
    kind = rng.random()
    if kind < 0.45:  # words, as text has them
        return rng.choice(["", " ", "  "]) + rng.choice([" ", "  ", "\n"]).join(
            rng.choice(WORDS) for _ in range(rng.randint(1, 60)))
    if kind < 0.75:  # characters of many scripts
        return "".join(character(rng) for _ in range(rng.randint(0, 120)))
    if kind < 0.9:  # both
        return "".join(rng.choice(WORDS) if rng.random() < 0.5 else character(rng) for _ in range(rng.randint(1, 80)))
    if kind < 0.95:  # runs
        return "".join(character(rng) * rng.randint(1, 40) for _ in range(rng.randint(1, 12)))
    text = list(rng.choice(HARD)[:400])  # a hard one, with a few characters changed
    for _ in range(min(len(text), 5)):
        text[rng.randrange(len(text))] = character(rng)
    return "".join(text)


def documents(seed, count):
    rng = random.Random(seed)
    return HARD + [document(rng) for _ in range(count)]
