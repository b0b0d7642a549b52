"""WReN: a relation network that chooses the answer which completes a matrix of codes."""

import torch
from torch import nn


class WReN(nn.Module):
    """Wild relation network (Barrett et al. 2018), on codes, not images; released by van Steenkiste et al. (2019).

    Every answer is put in the missing place. Each of the nine panels is its code and its place; every ordered pair of
    panels goes through g, the sum over pairs through f, which gives the answer its score. Theirs has two to four
    layers of 256 or 512 units for g and one or two of 128 or 256 for f.

    >>> WReN(5)(torch.zeros(2, 8, 5), torch.zeros(2, 6, 5)).shape
    torch.Size([2, 6])
    """

    def __init__(self, codes: int, *, edge: int = 256, graph: int = 128, panels: int = 9):
        super().__init__()
        self.panels = panels
        # The first layer of g on a pair is the sum of a layer on either panel: nine products instead of 81.
        self.first = nn.Linear(codes + panels, edge)
        self.second = nn.Linear(codes + panels, edge, bias=False)
        self.g = nn.Sequential(nn.ReLU(), nn.Linear(edge, edge), nn.ReLU())
        self.f = nn.Sequential(nn.Linear(edge, graph), nn.ReLU(), nn.Linear(graph, 1))

    def forward(self, context: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        """Scores (n, answers) of context (n, 8, d) and answers (n, answers, d)."""
        n, choices, d = answers.shape
        shown = context[:, None].expand(n, choices, self.panels - 1, d)
        panels = torch.cat([shown, answers[:, :, None]], dim=2)
        places = torch.eye(self.panels, dtype=panels.dtype, device=panels.device).expand(n, choices, -1, -1)
        panels = torch.cat([panels, places], dim=3)
        pairs = self.first(panels)[:, :, :, None] + self.second(panels)[:, :, None]
        scores: torch.Tensor = self.f(self.g(pairs).sum(dim=(2, 3))).squeeze(2)
        return scores
