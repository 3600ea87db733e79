#include "craton/results/report_style.h"

namespace craton::results {

const char* const kReportStyle = R"css(
:root{--page:#f6f6f3;--card:#fff;--ink:#1b1d20;--soft:#5d636b;--line:#e4e4df;--one:#1f6fd1;--two:#d9571e;--faint:#a9c6ee;
--good:#1a7f4b;--bad:#b3261e;--shadow:0 1px 2px rgba(0,0,0,.05);color-scheme:light}
@media(prefers-color-scheme:dark){:root:not([data-theme=light]){--page:#121315;--card:#1b1d20;--ink:#ececea;--soft:#9ea4ac;--line:#2d3035;
--one:#6aabf7;--two:#f5935f;--faint:#2f4d75;--good:#5cc98f;--bad:#f08a82;--shadow:none;color-scheme:dark}}
:root[data-theme=dark]{--page:#121315;--card:#1b1d20;--ink:#ececea;--soft:#9ea4ac;--line:#2d3035;
--one:#6aabf7;--two:#f5935f;--faint:#2f4d75;--good:#5cc98f;--bad:#f08a82;--shadow:none;color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1080px;margin:0 auto;padding:40px 24px 64px}
header{display:flex;justify-content:space-between;align-items:flex-start;gap:24px}
h1{font-size:30px;line-height:1.2;margin:0;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:18px;margin:44px 0 14px;letter-spacing:-.01em}
h3{font-size:14px;margin:0;font-weight:600}
p{margin:6px 0}.soft,figcaption,dt{color:var(--soft)}
button{font:inherit;font-size:13px;color:var(--soft);background:var(--card);border:1px solid var(--line);border-radius:8px;padding:5px 12px;cursor:pointer}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;margin:16px 0 0;font-size:14px}.facts dd{margin:0;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:12px;margin-top:26px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:12px;box-shadow:var(--shadow)}
.tile{padding:14px 16px}.tile b{display:block;font-size:23px;font-weight:600;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.tile span{font-size:13px;color:var(--soft)}.tile .good{color:var(--good)}.tile .bad{color:var(--bad)}
.card{padding:16px 18px;min-width:0}.head{display:flex;justify-content:space-between;align-items:center;gap:12px;flex-wrap:wrap;margin-bottom:8px}
.legend{display:flex;gap:16px;font-size:13px;color:var(--soft);flex-wrap:wrap}.legend i{display:inline-block;width:16px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
i.one{background:var(--one)}i.two{background:var(--two)}i.faint{background:var(--faint)}
.two-up{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:12px;margin-top:12px}
@media(max-width:720px){.two-up,.four{grid-template-columns:repeat(2,minmax(0,1fr))!important}.two-up{grid-template-columns:1fr!important}}
.chart{display:block;width:100%;height:auto;overflow:visible}.chart metadata{display:none}
.chart text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.line.one{stroke:var(--one)}.line.two{stroke:var(--two)}
.line.faint{stroke:var(--faint);stroke-width:1}.dot.one{fill:var(--one)}.dot.two{fill:var(--two)}.dot{stroke:var(--card);stroke-width:1.5}
.reference{stroke:var(--soft);stroke-width:1;stroke-dasharray:4 4}.mark{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:2 3}
.mark.bad{stroke:var(--bad)}.hover line{stroke:var(--soft);stroke-width:1}.hover circle{stroke:var(--card);stroke-width:1.5}
#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--page);font-size:12.5px;line-height:1.45;padding:6px 10px;border-radius:8px;display:none;z-index:2;font-variant-numeric:tabular-nums;white-space:pre}
.scale input{position:absolute;opacity:0}.scale{position:relative}.switch{display:inline-flex;border:1px solid var(--line);border-radius:8px;overflow:hidden;font-size:13px}
.switch label{padding:3px 12px;color:var(--soft);cursor:pointer}
#linear:checked~.head label[for=linear],#log:checked~.head label[for=log]{background:var(--one);color:var(--card)}
.scale input:focus-visible~.head .switch{outline:2px solid var(--one)}
#linear:checked~.on-log,#log:checked~.on-linear{display:none}
figure{margin:0 0 12px}figure .head{margin-bottom:4px}figcaption{font-size:13.5px;margin-bottom:10px}
.four{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:12px}.four div{min-width:0;font-size:13px;color:var(--soft)}
.four img{display:block;width:100%;height:auto;border-radius:6px;border:1px solid var(--line);margin-bottom:4px}
.wide img{display:block;max-width:100%;height:auto;margin:0 auto;border-radius:8px;background:#fff}
table{border-collapse:collapse;width:100%;font-size:14px}td,th{text-align:left;padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:500;color:var(--soft);font-size:13px}tr:last-child td{border-bottom:0}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
.tag{display:inline-block;font-size:12px;padding:1px 8px;border-radius:99px;border:1px solid var(--line);color:var(--soft)}
.tag.failed,.tag.left,.tag.skipped,.tag.restored{color:var(--bad);border-color:currentColor}.tag.joined,.tag.finished{color:var(--good);border-color:currentColor}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px}pre{margin:0;overflow:auto;line-height:1.55}
code{overflow-wrap:anywhere}summary{cursor:pointer;font-weight:600;font-size:14px}details pre{margin-top:12px}
footer{margin-top:44px;font-size:13px;color:var(--soft)}
@media print{button,.switch{display:none}body{background:#fff}.card,.tile{break-inside:avoid}}
)css";

const char* const kReportScript = R"js(
(function(){
var root=document.documentElement,tip=document.getElementById('tip'),svgNs='http://www.w3.org/2000/svg';
document.getElementById('theme').onclick=function(){
  var dark=root.dataset.theme?root.dataset.theme==='dark':matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme=dark?'light':'dark';};
function text(v){if(v===null)return 'not finite';var a=Math.abs(v);
  return a>=1e5||(a>0&&a<1e-3)?v.toExponential(2):String(+v.toPrecision(4));}
function add(parent,name,attributes){var e=document.createElementNS(svgNs,name);
  for(var k in attributes)e.setAttribute(k,attributes[k]);parent.appendChild(e);return e;}
document.querySelectorAll('svg.chart').forEach(function(svg){
  var d=JSON.parse(svg.querySelector('metadata').textContent),hover=svg.querySelector('.hover'),b=d.box;
  function px(x){return b[0]+(x-d.x[0])/(d.x[1]-d.x[0])*(b[2]-b[0]);}
  function py(y){var s=d.log?Math.log(y/d.y[0])/Math.log(d.y[1]/d.y[0]):(y-d.y[0])/(d.y[1]-d.y[0]);return b[3]-s*(b[3]-b[1]);}
  function clear(){hover.replaceChildren();tip.style.display='none';}
  svg.addEventListener('mouseleave',clear);
  svg.addEventListener('mousemove',function(e){
    var p=new DOMPoint(e.clientX,e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    if(p.x<b[0]-8||p.x>b[2]+8)return clear();
    var x=d.x[0]+(p.x-b[0])/(b[2]-b[0])*(d.x[1]-d.x[0]),at=null,lines=[];
    hover.replaceChildren();
    d.series.forEach(function(s){
      if(!s.x.length)return;
      var lo=0,hi=s.x.length-1;while(hi-lo>1){var m=(lo+hi)>>1;if(s.x[m]<x)lo=m;else hi=m;}
      var i=Math.abs(s.x[lo]-x)<=Math.abs(s.x[hi]-x)?lo:hi;
      if(at===null){at=s.x[i];add(hover,'line',{x1:px(at),x2:px(at),y1:b[1],y2:b[3]});}
      if(s.y[i]!==null&&(!d.log||s.y[i]>0))add(hover,'circle',{cx:px(s.x[i]),cy:py(s.y[i]),r:4,'class':'dot '+s.style});
      lines.push(s.label+'  '+text(s.y[i])+d.unit+(s.x[i]!==at?'  ('+d.xt+' '+text(s.x[i])+')':''));});
    if(at===null)return;
    tip.textContent=d.xt+' '+text(at)+'\n'+lines.join('\n');tip.style.display='block';
    var w=tip.offsetWidth;tip.style.left=Math.min(e.clientX+14,innerWidth-w-8)+'px';tip.style.top=(e.clientY+14)+'px';});
});
})();
)js";

}  // namespace craton::results
