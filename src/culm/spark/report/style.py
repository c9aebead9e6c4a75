"""The style sheet of a report: light and dark, on paper and on a small screen. It loads nothing, fonts included."""

STYLE = """
:root {
  --ink: #1d2329; --faint: #5b6670; --paper: #ffffff; --panel: #f4f6f8; --rule: #d5dbe1;
  --verified: #0b5fa5; --unverified: #e3a008; --invalid: #b5173b; --free: #e6eaee; --link: #0b5fa5;
  color-scheme: light dark;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ec; --faint: #9aa6b2; --paper: #14181c; --panel: #1d2329; --rule: #39424b;
    --verified: #4d9fe0; --unverified: #e8b33a; --invalid: #f0607f; --free: #2b333b; --link: #7cbcf0;
  }
}
@media print {
  :root {
    --ink: #000000; --faint: #444444; --paper: #ffffff; --panel: #ffffff; --rule: #bbbbbb;
    --verified: #0b5fa5; --unverified: #e3a008; --invalid: #b5173b; --free: #e6eaee; --link: #000000;
  }
  nav { display: none; }
  article, tr, .chart { break-inside: avoid; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 64rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; padding-top: 0.5rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 0.5rem; }
h4 { font-size: 0.95rem; margin: 0; font-weight: 600; }
p { margin: 0.5rem 0; max-width: 46rem; }
a { color: var(--link); }
nav a { display: inline-block; margin: 0 0.8rem 0.2rem 0; }
code { font: 0.9em/1.4 ui-monospace, monospace; }
.id, .proof { overflow-wrap: anywhere; }
.proof { display: block; padding: 0.5rem; background: var(--panel); font-size: 0.75rem; }
.faint, footer { color: var(--faint); font-size: 0.9rem; }
.lead { font-size: 1.1rem; }
.covers { border-left: 0.3rem solid var(--unverified); padding-left: 0.75rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0.5rem; margin: 1rem 0; }
.tiles div { background: var(--panel); border: 1px solid var(--rule); border-radius: 0.3rem; padding: 0.5rem 0.75rem; }
.tiles dt { color: var(--faint); font-size: 0.85rem; }
.tiles dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 0.75rem 0; padding-right: 1rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding-bottom: 0.25rem; }
th, td { text-align: left; padding: 0.25rem 0.9rem 0.25rem 0; border-bottom: 1px solid var(--rule); }
th, td { vertical-align: top; }
tbody th { font-weight: normal; min-width: 7rem; }
.n { text-align: right; white-space: nowrap; }
thead th { color: var(--faint); font-weight: 600; }
thead .n { white-space: normal; }
.chart img { display: block; width: 100%; min-width: 34rem; }
.bar, .strip { display: block; width: 100%; background: var(--free); }
.bar { height: 2.5rem; margin: 0.75rem 0; }
.strip { height: 1.5rem; margin: 0.3rem 0 0; outline: 1px solid var(--rule); }
.meter { width: 6rem; height: 0.7rem; background: var(--free); vertical-align: middle; }
.swatch { width: 0.8em; height: 0.8em; margin-right: 0.35em; vertical-align: -0.05em; }
.legend span { display: inline-block; margin-right: 1.2rem; }
.ends { display: flex; justify-content: space-between; gap: 1rem; color: var(--faint); font-size: 0.8rem; }
article { margin: 1.25rem 0; }
article p { margin: 0.1rem 0; font-size: 0.9rem; max-width: none; }
details { margin: 0.5rem 0; }
.v { fill: var(--verified); } .u { fill: var(--unverified); } .i { fill: var(--invalid); } .m { fill: var(--free); }
.a { fill: var(--faint); } .z { fill: none; stroke: var(--ink); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
"""
