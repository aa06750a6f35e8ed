// The style and the script of a report's page. They name no address: the page loads nothing.
#pragma once

namespace swarm::ctl {

inline constexpr const char* kStyle = R"css(
:root {
  color-scheme: light;
  --page: #fff; --ink: #1c2128; --soft: #5d6672; --rule: #dfe3e8; --panel: #f6f7f9;
  --good: #1a7f37; --bad: #c62828; --bad-panel: #fdecea; --warn: #b26a00;
  --c0: #0b62ad; --c1: #d55e00; --c2: #00806a; --c3: #a8447f; --c4: #6b6f00; --c5: #5b4bb7;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --page: #14181d; --ink: #e4e8ed; --soft: #98a2ae; --rule: #2c333b; --panel: #1b2027;
    --good: #4cc26d; --bad: #ff7b72; --bad-panel: #3a1d1d; --warn: #e3a03c;
    --c0: #69b3f5; --c1: #ff9d57; --c2: #3ecfb0; --c3: #e58bc4; --c4: #c9cd5a; --c5: #a99bff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 68rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1, h2, h3 { line-height: 1.25; margin: 0; font-weight: 600; overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .9rem; padding-bottom: .4rem;
     border-bottom: 1px solid var(--rule); }
article { margin-top: 4rem; padding-top: 2rem; border-top: 3px solid var(--rule); }
p { margin: .5rem 0; max-width: 48rem; }
code, pre { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
pre { margin: .5rem 0; padding: .75rem 1rem; background: var(--panel); border-radius: 6px;
      white-space: pre-wrap; overflow-wrap: anywhere; }
.head { display: flex; flex-wrap: wrap; align-items: center; gap: .35rem .9rem; }
.state { padding: .1rem .65rem; border: 1px solid currentColor; border-radius: 1rem;
         font-size: .8rem; font-weight: 600; color: var(--soft); }
.state.good { color: var(--good); } .state.bad { color: var(--bad); }
p.note { margin-bottom: 1.25rem; }
.folder, .unit, .note, footer { color: var(--soft); font-size: .85rem; }
.folder { margin: .25rem 0 0; overflow-wrap: anywhere; }
nav { margin-top: 1rem; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .9rem; }
a { color: var(--c0); text-decoration: none; } a:hover { text-decoration: underline; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
         margin: 1.5rem 0 0; border: 1px solid var(--rule); border-radius: 8px;
         overflow: hidden; }
.facts div { padding: .8rem 1rem; box-shadow: 0 0 0 .5px var(--rule); }
.facts dt { color: var(--soft); font-size: .8rem; }
.facts dd { margin: 0; font-size: 1.4rem; font-weight: 600; line-height: 1.3;
            font-variant-numeric: tabular-nums; }
.facts small { display: block; font-size: .78rem; font-weight: 400; color: var(--soft); }
.verdict { margin: 0 0 1.25rem; padding: .7rem 1rem; max-width: none; background: var(--panel);
           border-left: 4px solid var(--soft); border-radius: 0 6px 6px 0; }
.verdict.good { border-color: var(--good); } .verdict.good b { color: var(--good); }
.verdict.bad { border-color: var(--bad); background: var(--bad-panel); }
.verdict.bad b { color: var(--bad); }
.alarm { margin-bottom: 1.75rem; }
.scroll { overflow-x: auto; margin: 0 0 1.25rem; }
table { border-collapse: collapse; min-width: 100%; font-size: .875rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .35rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; vertical-align: top;
         border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: .8rem; white-space: nowrap; }
tbody th { font-weight: 500; }
table.narrow { min-width: 0; }
.narrow th, .narrow td { padding-right: 2.5rem; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.long { min-width: 14rem; }
details { margin: 0 0 1.25rem; } summary { cursor: pointer; color: var(--c0); }
details .scroll { margin-top: .75rem; }
.charts { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1.5rem 2rem; }
.charts > :first-child { grid-column: 1 / -1; }
.charts > :first-child svg, .charts > :first-child .ys { height: 17rem; }
.charts.two { grid-template-columns: minmax(0, 1fr); }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .6rem;
             min-height: 3rem; align-content: flex-start; }
.plot { display: grid; grid-template-columns: 3.4rem minmax(0, 1fr); margin-top: .4rem; }
.plot svg { display: block; width: 100%; height: 9rem; overflow: visible; touch-action: pan-y; }
.ys { position: relative; height: 9rem; }
.ys span { position: absolute; right: .5rem; transform: translateY(50%); }
.xs { grid-column: 2; position: relative; height: 1.5rem; }
.xs span { position: absolute; top: .3rem; transform: translateX(-50%); }
.xs .first { transform: none; } .xs .last { transform: translateX(-100%); }
.ys, .xs, output { font-size: .75rem; line-height: 1.2; color: var(--soft);
                   font-variant-numeric: tabular-nums; }
output { flex-basis: 100%; min-height: 1.2em; white-space: nowrap; overflow: hidden;
         text-overflow: ellipsis; color: var(--ink); }
svg path { fill: none; vector-effect: non-scaling-stroke; }
.grid { stroke: var(--rule); }
.line { stroke-width: 1.5; stroke-linejoin: round; }
.under { stroke-width: 4; opacity: .45; }
.dots { stroke-linecap: round; stroke-width: 7; }
.mark { stroke-width: 1; } .mark.checkpoint { stroke-width: 2; }
.cursor { stroke: var(--soft); stroke-width: 1; }
.fault { stroke: var(--bad); --key: var(--bad); }
.takeover { stroke: var(--warn); stroke-dasharray: 5 3; --key: var(--warn); }
.roster { stroke: var(--soft); stroke-dasharray: 1 3; --key: var(--soft); }
.checkpoint { stroke: var(--soft); --key: var(--soft); }
.c0 { stroke: var(--c0); --key: var(--c0); } .c1 { stroke: var(--c1); --key: var(--c1); }
.c2 { stroke: var(--c2); --key: var(--c2); } .c3 { stroke: var(--c3); --key: var(--c3); }
.c4 { stroke: var(--c4); --key: var(--c4); } .c5 { stroke: var(--c5); --key: var(--c5); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .8rem;
          color: var(--soft); }
.legend span { display: inline-flex; align-items: center; gap: .4rem; }
p.legend { margin: 0 0 1rem 3.4rem; max-width: none; grid-column: 1 / -1; }
.key { width: 1.1rem; border-top: 2px solid var(--key); }
.key.dots { width: .45rem; height: .45rem; border: 0; border-radius: 50%; background: var(--key); }
.key.fault { width: 0; height: .9rem; border: 0; border-left: 2px solid var(--key); }
.key.takeover { width: 0; height: .9rem; border: 0; border-left: 2px dashed var(--key); }
.key.roster { width: 0; height: .9rem; border: 0; border-left: 2px dotted var(--key); }
.key.checkpoint { width: 0; height: .4rem; border: 0; border-left: 2px solid var(--key); }
ul { margin: .5rem 0; padding-left: 1.2rem; } li { margin: .15rem 0; }
footer { margin-top: 3rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
@media (max-width: 44rem) {
  body { padding: 1.25rem 1rem 3rem; }
  h1 { font-size: 1.4rem; }
  .charts { grid-template-columns: minmax(0, 1fr); }
  .charts > :first-child svg, .charts > :first-child .ys { height: 12rem; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .facts dd { font-size: 1.2rem; }
  p.legend { margin-left: 0; }
  td.long { min-width: 11rem; } .narrow th, .narrow td { padding-right: 1.1rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, output { display: none; }
  h2 { break-after: avoid; } tr { break-inside: avoid; } .scroll { overflow: visible; }
}
)css";

/// Shows the values of the curves, and the marks, under the pointer. Without it the page is
/// complete.
inline constexpr const char* kScript = R"js(
addEventListener('beforeprint', () => {
  for (const d of document.querySelectorAll('details')) d.open = true;
});
for (const svg of document.querySelectorAll('svg[data-x]')) {
  const numbers = text => (text.match(/-?[\d.]+(?:e[-+]?\d+)?/g) || []).map(Number);
  const [x0, x1] = numbers(svg.dataset.x), [y0, y1, log] = numbers(svg.dataset.y);
  const { width, height } = svg.viewBox.baseVal;
  const lines = [...svg.querySelectorAll('.line')].reverse().map(path => {
    const flat = numbers(path.getAttribute('d').replace(/h0/g, '')), points = [];
    for (let i = 0; i + 1 < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
    return { name: path.dataset.name, points };
  });
  const marks = [...svg.querySelectorAll('.mark')].map(path =>
    [numbers(path.getAttribute('d'))[0], path.textContent]);
  const output = svg.closest('figure').querySelector('output');
  const cursor = svg.querySelector('.cursor');
  const value = y => {
    const h = 1 - y / height;
    return log ? y0 * (y1 / y0) ** h : y0 + h * (y1 - y0);
  };
  const nearest = (points, x) =>
    points.reduce((best, p) => Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best);
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * width;
    const x = nearest(lines.flatMap(line => line.points), at)[0];
    const said = lines.map(line => {
      const number = Number(value(nearest(line.points, x)[1]).toPrecision(4));
      return lines.length > 1 ? line.name + ' ' + number : number;
    });
    const near = marks.filter(mark => Math.abs(mark[0] - at) < 6).map(mark => mark[1]);
    const step = Math.round(x0 + x / width * (x1 - x0));
    output.textContent = ['step ' + step, ...said, ...near].join(' · ');
    cursor.setAttribute('d', 'M' + x + ' 0V' + height);
  });
  svg.addEventListener('pointerleave', () => {
    output.textContent = '';
    cursor.removeAttribute('d');
  });
}
)js";

}  // namespace swarm::ctl
