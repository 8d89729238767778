"""The status page as HTML: one self-contained text, readable on any screen. Pure.

    two Snapshots and the seconds between them -> HTML

A small script fetches the page periodically and replaces its <main>; without scripts, the page
reloads itself.
"""

import html
import math
from collections.abc import Sequence
from typing import Final

from moorage_runtime.frontends.grps import page_figures
from moorage_runtime.frontends.grps.page_figures import Figures, Model, Snapshot

_RELOAD_SECONDS: Final = 2
_MIB: Final = 1024 * 1024
_NOTHING: Final = "&ndash;"
# name, meaning, cell class
_COLUMNS: Final = (
    ("model", "", ""),
    ("version", "", ""),
    ("state", "", ""),
    ("requests", "since the start", "n"),
    ("qps", "requests per second since the last update", "n"),
    ("fail rate", "share of failed requests since the start", "n"),
    ("latency avg", "of successful requests", "n"),
    ("p50", "half of the requests were faster", "n"),
    ("p99", "99% of the requests were faster", "n"),
    ("latency max", "no request was slower", "n"),
    ("latency cdf", "share of the requests up to each latency", ""),
)
_CHART_WIDTH: Final = 96
_CHART_HEIGHT: Final = 22
_STYLE: Final = """
:root{color-scheme:light dark;
--ink:#17242d;--dim:#5b6b75;--line:#dde4e8;--card:#fff;--page:#f4f7f8;
--sea:#0b7285;--sea-soft:#0b728526;--good:#2b8a3e;--bad:#c92a2a}
@media(prefers-color-scheme:dark){:root{
--ink:#e3ebef;--dim:#93a4ae;--line:#2c3a43;--card:#182229;
--page:#10181d;--sea:#4fc3d6;--sea-soft:#4fc3d62e;--good:#69db7c;--bad:#ff8787}}
*{box-sizing:border-box}
body{margin:0;padding:24px clamp(12px,4vw,48px);background:var(--page);color:var(--ink);
font:14px/1.45 system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif}
header{display:flex;align-items:baseline;gap:14px;margin-bottom:18px}
h1{margin:0;font-size:24px;letter-spacing:-.01em}
#live{color:var(--dim);font-size:13px}
#live.lost{color:var(--bad);font-weight:600}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:12px;margin:0 0 20px}
dl div,.table{background:var(--card);border:1px solid var(--line);border-radius:10px}
dl div{padding:12px 16px}
dt{color:var(--dim);font-size:13px}
dd{margin:2px 0 0;font-size:24px;font-weight:600;font-variant-numeric:tabular-nums}
dd small{color:var(--dim);font-size:13px;font-weight:400}
.table{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{padding:7px 10px;text-align:left;white-space:nowrap;border-bottom:1px solid var(--line)}
tbody tr:last-child td{border-bottom:0}
th{color:var(--dim);font-size:13px;font-weight:500}
.n{text-align:right;font-variant-numeric:tabular-nums}
.ready{color:var(--good)}.failed{color:var(--bad)}.dim{color:var(--dim)}
svg{display:block}svg path{fill:var(--sea-soft);stroke:var(--sea);stroke-width:1.5}
footer{margin-top:14px;color:var(--dim);font-size:13px}a{color:var(--sea)}
"""
_SCRIPT: Final = f"""
const live=document.getElementById("live");
setInterval(async()=>{{if(document.hidden)return;try{{
const answer=await fetch(location.href,{{cache:"no-store"}});if(!answer.ok)throw 0;
const page=new DOMParser().parseFromString(await answer.text(),"text/html");
document.querySelector("main").replaceWith(page.querySelector("main"));
live.textContent="live";live.className=""
}}catch{{live.textContent="the server does not answer";live.className="lost"}}
}},{_RELOAD_SECONDS}000)
"""


def render(before: Snapshot, now: Snapshot, seconds: float) -> bytes:
    """The page; rates are for the time between the snapshots."""
    rows = "".join(
        _row(model, before.models.get(model, Figures()), figures, seconds)
        for model, figures in sorted(now.models.items(), key=_busiest_first)
    )
    heads = "".join(
        f'<th class="{kind}" title="{meaning}">{name}</th>' for name, meaning, kind in _COLUMNS
    )
    if not rows:
        rows = f'<tr><td class="dim" colspan="{len(_COLUMNS)}">no models yet</td></tr>'
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,"><title>Moorage</title>'
        f'<noscript><meta http-equiv="refresh" content="{_RELOAD_SECONDS}"></noscript>'
        f"<style>{_STYLE}</style></head><body><header><h1>Moorage</h1>"
        '<span id="live">live</span></header>'
        f"<main><dl>{_cards(before, now, seconds)}</dl>"
        f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        f"</div><footer>Rates are of the last {seconds:.0f} s, the rest is since the start. "
        'The same figures for programs: <a href="/metrics">/metrics</a></footer></main>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    ).encode()


def _cards(before: Snapshot, now: Snapshot, seconds: float) -> str:
    known = [figures.is_ready for figures in now.models.values() if figures.is_ready is not None]
    used = (now.processor_seconds - before.processor_seconds) / seconds
    cards = (
        ("qps", f"{(now.requests - before.requests) / seconds:,.1f}", ""),
        ("fail rate", _percent(page_figures.share(now.failures, now.requests)), ""),
        ("requests", f"{now.requests:,.0f}", ""),
        ("versions ready", f"{sum(known)}", f"of {len(known)}"),
        ("cpu", f"{used:.1%}", "of a core"),
        ("memory", f"{now.memory_bytes / _MIB:,.1f}", "MiB"),
    )
    return "".join(
        f"<div><dt>{name}</dt><dd>{value} <small>{unit}</small></dd></div>"
        for name, value, unit in cards
    )


def _busiest_first(item: tuple[Model, Figures]) -> tuple[float, Model]:
    model, figures = item
    return (-figures.requests, model)


def _row(model: Model, before: Figures, now: Figures, seconds: float) -> str:
    name, version = model
    cells = (
        # requests for unknown names are counted together, without a name
        html.escape(name) or "(unknown)",
        html.escape(version),
        _state(now),
        f"{now.requests:,.0f}",
        f"{(now.requests - before.requests) / seconds:,.1f}",
        _failures(now),
        _duration(page_figures.share(now.seconds, now.timed)),
        _duration(page_figures.percentile(now.buckets, 0.5), now.buckets),
        _duration(page_figures.percentile(now.buckets, 0.99), now.buckets),
        _duration(page_figures.largest(now.buckets), now.buckets),
        _chart(page_figures.distribution(now.buckets)),
    )
    return (
        "<tr>"
        + "".join(
            f'<td class="{kind}">{cell}</td>'
            for (_, _, kind), cell in zip(_COLUMNS, cells, strict=True)
        )
        + "</tr>"
    )


def _state(figures: Figures) -> str:
    match figures.is_ready:
        case True:
            return '<span class="ready">● ready</span>'
        case False:
            return '<span class="failed">○ not ready</span>'
        case None:
            return '<span class="dim">no such model</span>'


def _failures(figures: Figures) -> str:
    text = _percent(page_figures.share(figures.failures, figures.requests))
    return f'<span class="failed">{text}</span>' if figures.failures else text


def _percent(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.1%}"


def _duration(seconds: float | None, buckets: Sequence[tuple[float, float]] = ()) -> str:
    """A latency as text; above the last finite bound, only the bound is known."""
    if seconds is None:
        return _NOTHING
    if math.isinf(seconds):
        return f"over {_duration(buckets[-2][0])}"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def _chart(shares: Sequence[tuple[float, float]]) -> str:
    """A step chart from the fastest bound to the slowest, with the numbers in its title."""
    if not shares:
        return ""
    step = _CHART_WIDTH / len(shares)
    points = [f"M0 {_CHART_HEIGHT}"]
    for index, (_, part) in enumerate(shares):
        height = 1 + (_CHART_HEIGHT - 2) * (1 - part)
        points.append(f"L{index * step:.0f} {height:.1f}H{(index + 1) * step:.0f}")
    points.append(f"V{_CHART_HEIGHT}Z")
    words = ", ".join(f"{_duration(bound)}: {part:.1%}" for bound, part in shares)
    return (
        f'<svg width="{_CHART_WIDTH}" height="{_CHART_HEIGHT}" role="img">'
        f'<title>{words}</title><path d="{"".join(points)}"/></svg>'
    )
