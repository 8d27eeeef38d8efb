"""Text sentiment as in CrypTen's paper: a linear model over word embeddings."""

from __future__ import annotations

from torch import Tensor, nn

WORDS = 519_820
WIDTH = 32


class TextSentiment(nn.Module):
    """Scores of a text that is given as the count of each word: (N, words) gives (N, classes).

    The counts times the table of embeddings is the sum of the embeddings of the words; which words
    they are stays secret, at the price of a product with the whole table.
    """

    def __init__(self, words: int = WORDS, width: int = WIDTH, num_classes: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Linear(words, width, bias=False)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, counts: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.embedding(counts))
        return scores


def text_sentiment(
    *, words: int = WORDS, width: int = WIDTH, num_classes: int = 2
) -> TextSentiment:
    """519,820 words with 32 numbers each."""
    return TextSentiment(words, width, num_classes)
