// Okabe and Ito's colours; the rest is grey, so that a failed verification is what one sees first.
#include "page/style.hpp"

namespace refit::page {

// .l and .m are texts in pictures that narrower pages have no room for; bars.cpp says which.
const char* const kStyle = R"css(
:root { color-scheme: light dark;
  --bg: #ffffff; --ink: #1b1f24; --dim: #59636e; --line: #d1d9e0; --soft: #f6f8fa; --grey: #e6e9ed; --mark: #b3bbc4;
  --control: #6e7781; --treatment: #0072b2; --onarm: #ffffff; --heat: #0072b2; --hot: #ffffff; --cold: #1b1f24;
  --bad: #b3261e; --bad-soft: #fdeceb; --good: #00694d; --good-soft: #e8f5f0; --warn: #8a5a00; --warn-soft: #fdf4e0; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #0f1318; --ink: #e6e9ed; --dim: #9aa4af; --line: #2f373f; --soft: #171c22; --grey: #2a3139; --mark: #56606b;
  --control: #98a2ad; --treatment: #56b4e9; --onarm: #0f1318; --heat: #56b4e9; --hot: #0f1318; --cold: #e6e9ed;
  --bad: #ff8a80; --bad-soft: #3b1513; --good: #5fd0ab; --good-soft: #0e2a22; --warn: #f0b84a; --warn-soft: #2e2410; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--bg); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 27px; line-height: 1.25; margin: 0 0 8px; font-weight: 650; text-wrap: balance; }
h2 { font-size: 18px; margin: 44px 0 12px; padding-bottom: 6px; border-bottom: 1px solid var(--line); font-weight: 650; }
h3 { font-size: 15px; margin: 26px 0 8px; font-weight: 650; }
p { margin: 0 0 8px; }
.kicker { color: var(--dim); margin-bottom: 4px; }
.lead { max-width: 78ch; color: var(--dim); }
.small, figcaption, .note { color: var(--dim); font-size: 13px; max-width: 92ch; }
code { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
figure { margin: 0 0 20px; }
.banner { display: flex; gap: 16px; align-items: flex-start; margin: 20px 0; padding: 14px 18px; border-radius: 8px;
  border: 1px solid; border-left-width: 8px; }
.banner .sign { font-size: 28px; line-height: 1; font-weight: 700; width: 28px; text-align: center; flex: none; }
.banner strong { display: block; font-size: 19px; line-height: 1.4; }
.banner p, .banner li { color: var(--ink); }
.banner p:last-child { margin: 0; } .banner ul { margin: 4px 0 0; padding-left: 18px; }
.banner > div { min-width: 0; }
.good { color: var(--good); background: var(--good-soft); border-color: var(--good); }
.warn { color: var(--warn); background: var(--warn-soft); border-color: var(--warn); }
.plain { color: var(--dim); background: var(--soft); border-color: var(--dim); }
.bad { color: var(--bad); background: var(--bad-soft); border-color: var(--bad); border-width: 3px 3px 3px 12px; }
.bad .sign { font-size: 44px; width: 44px; } .bad strong { font-size: 30px; }
.wrong { color: var(--bad); } .held { color: var(--warn); }
dl { margin: 0; }
.origins { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; font-size: 13px; color: var(--dim); }
.origins dt, .facts dt { font-weight: 600; color: var(--ink); }
dd { margin: 0; min-width: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 14px; }
.tile { background: var(--soft); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
.tile p { margin: 0; color: var(--dim); font-size: 13px; }
.tile .big { font-size: 27px; line-height: 1.4; color: var(--ink); font-weight: 650; font-variant-numeric: tabular-nums; }
.dot { display: inline-block; width: 11px; height: 11px; margin-right: 3px; }
.dot.control { background: var(--control); border-radius: 50%; } .dot.treatment { background: var(--treatment); }
.arm { margin: 12px 0 5px; font-variant-numeric: tabular-nums; }
.lane { display: grid; grid-template-columns: 112px minmax(0, 1fr); column-gap: 12px; margin-bottom: 3px; align-items: center; }
.left { text-align: right; font-size: 12px; line-height: 1.25; color: var(--dim); position: relative; }
.left .top { position: absolute; right: 0; bottom: 54px; }
svg { display: block; overflow: visible; }
.patterns { position: absolute; }
svg text { fill: var(--ink); font-size: 12px; font-variant-numeric: tabular-nums; pointer-events: none; }
svg text.small { fill: var(--dim); font-size: 11.5px; } svg text.strong { fill: var(--ink); font-weight: 650; }
svg text.seg { fill: #14171a; } svg text.seg.light { fill: #ffffff; }
svg text.halo { paint-order: stroke; stroke: #ffffffb0; stroke-width: 3px; stroke-linejoin: round; }
svg text.light.halo { stroke: #004a75c0; } svg text.onarm { fill: var(--onarm); }
svg text.hot { fill: var(--hot); } svg text.cold { fill: var(--cold); }
.edge { stroke: var(--bg); stroke-width: 1; }
.axis { stroke: var(--dim); stroke-width: 1; } .grid { stroke: var(--line); stroke-width: 1; }
.c0 { fill: #e69f00; } .c1 { fill: #56b4e9; } .c2 { fill: #009e73; } .c3 { fill: #f0e442; } .c4 { fill: #0072b2; }
.c5 { fill: #d55e00; } .c6 { fill: #cc79a7; }
.s0 { fill: url(#s0); } .s1 { fill: url(#s1); } .s2 { fill: url(#s2); } .s3 { fill: url(#s3); } .s4 { fill: url(#s4); }
.s5 { fill: url(#s5); } .s6 { fill: url(#s6); }
.d0 { fill: url(#d0); } .d1 { fill: url(#d1); } .d2 { fill: url(#d2); } .d3 { fill: url(#d3); } .d4 { fill: url(#d4); }
.d5 { fill: url(#d5); } .d6 { fill: url(#d6); }
.idle { fill: url(#idle); } .sync { fill: url(#sync); } .rest { fill: var(--bg); stroke: var(--dim); }
.mark { fill: #ffffff; fill-opacity: 0.55; } .grey { fill: var(--grey); } .line { fill: var(--mark); }
svg text.quiet { fill: var(--ink); stroke: var(--grey); stroke-width: 3px; paint-order: stroke; }
rect.control, circle.control { fill: var(--control); } rect.treatment, circle.treatment { fill: var(--treatment); }
.plain-bar { fill: var(--dim); } .budget-bar { fill: var(--grey); }
.point { fill-opacity: 0.75; } .point.control { fill: var(--control); } .point.treatment { fill: var(--treatment); }
.point.warmup { fill: var(--bg); fill-opacity: 1; stroke-width: 1.6; }
.point.warmup.control, .reach.control, .median.control { stroke: var(--control); }
.point.warmup.treatment, .reach.treatment, .median.treatment { stroke: var(--treatment); }
.reach { stroke-width: 1.2; } .median { stroke-width: 1.3; stroke-dasharray: 5 4; }
.curve { stroke-width: 1.6; stroke-opacity: 0.75; } .curve.control { stroke: var(--control); } .curve.treatment { stroke: var(--treatment); }
.floor { stroke: var(--ink); stroke-width: 1.8; stroke-dasharray: 1 4; stroke-linecap: round; }
.cross { stroke: var(--bad); stroke-width: 2.4; fill: none; } .ring { stroke: var(--bad); stroke-width: 2; fill: none; }
.reasons { margin: 0 0 10px; padding-left: 18px; font-size: 13px; }
.stretched path { vector-effect: non-scaling-stroke; }
.held-line { fill: none; stroke-width: 2; } .held-line.generator { stroke-dasharray: 7 4; }
.held-line.control { stroke: var(--control); } .held-line.treatment { stroke: var(--treatment); }
.heat { fill: var(--heat); stroke: var(--line); stroke-width: 0.5; }
.planned { stroke: var(--bad); stroke-width: 2; }
.key { display: flex; gap: 8px; align-items: center; font-size: 12px; color: var(--dim); margin: 6px 0 0 124px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0 6px 124px; padding: 0; font-size: 13px; }
.legend.flush { margin-left: 62px; }
.legend li { display: flex; align-items: center; gap: 6px; min-width: 0; }
.legend svg { flex: none; }
figcaption { margin-left: 124px; }
.panels { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px 28px; }
.plot { display: grid; grid-template-columns: 62px minmax(0, 1fr); }
.wide { overflow-x: auto; margin: 0 0 10px; overflow-wrap: normal; }
.switches table, .traffic table, .verification table { width: auto; min-width: min(560px, 100%); }
.traffic { margin-top: 22px; }
#stages table { font-size: 12px; } #stages th, #stages td { padding: 4px 5px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 9px; border-bottom: 1px solid var(--line); text-align: right; vertical-align: baseline; white-space: nowrap; }
thead th { color: var(--dim); font-weight: 600; } thead tr:first-child th[colspan] { text-align: center; color: var(--ink); border-left: 1px solid var(--line); }
thead tr:last-child th { border-bottom: 1.5px solid var(--dim); } thead th[rowspan] { vertical-align: bottom; border-bottom: 1.5px solid var(--dim); }
tbody th { font-weight: 500; } tbody th, thead tr:first-child th:first-child { text-align: left; white-space: normal; min-width: 104px; max-width: 340px; overflow-wrap: anywhere; }
.phases tbody th { min-width: 190px !important; }
.path { color: var(--dim); } tr.main th, tr.main td { font-weight: 650; }
tr.role th { padding-top: 12px; font-weight: 650; } tr.role td { border-color: var(--line); } .rest-row { color: var(--dim); }
.text td, .finding td, .wide.switches thead th, .wide.verification thead th, .wide.findings thead th { text-align: left; } .finding td, .text td { white-space: normal; overflow-wrap: anywhere; min-width: 90px; }
.unused { color: var(--dim); }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(430px, 100%), 1fr)); gap: 0 36px; }
.columns h3 { margin-top: 10px; }
.facts { display: grid; grid-template-columns: minmax(100px, 168px) minmax(0, 1fr); gap: 3px 14px; font-size: 13px; }
a { color: var(--treatment); }
@media (max-width: 1040px) { .l { display: none; } }
@media (max-width: 700px) { .m { display: none; } .panels { grid-template-columns: minmax(0, 1fr); }
  main { padding: 18px 14px 36px; } h1 { font-size: 22px; } .lane { grid-template-columns: 76px minmax(0, 1fr); column-gap: 8px; }
  .legend, .legend.flush, figcaption, .key { margin-left: 0; } .origins { grid-template-columns: minmax(0, 1fr); gap: 0; } .origins dd { margin-bottom: 6px; }
  .bad strong { font-size: 24px; } }
@media print { :root { color-scheme: light;
  --bg: #ffffff; --ink: #000000; --dim: #444b53; --line: #c4ccd4; --soft: #ffffff; --grey: #e6e9ed; --mark: #9aa3ad;
  --control: #6e7781; --treatment: #0072b2; --onarm: #ffffff; --heat: #0072b2; --hot: #ffffff; --cold: #000000;
  --bad: #b3261e; --bad-soft: #fdeceb; --good: #00694d; --good-soft: #ffffff; --warn: #8a5a00; --warn-soft: #ffffff; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 11.5px; } main { padding: 0; max-width: none; } .wide { overflow: visible; } #save { display: none; }
  table { font-size: 9px; } th, td { padding: 2px 4px; }
  #stages table { font-size: 8px; } #stages th, #stages td { padding: 2px 3px; } #stages tbody th { min-width: 62px; }
  h2 { break-after: avoid; } figure, .banner, .tile, tr { break-inside: avoid; } }
)css";

const char* const kScript =
    "const save = document.getElementById(\"save\");"
    "save.href = URL.createObjectURL(new Blob([document.getElementById(\"result\").textContent], "
    "{type: \"application/json\"}));"
    "save.hidden = false;";

const char* const kScriptDigest = "sha256-64bPMNOU/pW1+X+lNguPlYlUhsYFkNvxxoI598e+mRE=";

}  // namespace refit::page
