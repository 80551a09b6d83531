// The steps of a run, live: only those that changed are fetched, and put in the place of the old ones. Each step says in
// four letters how it is drawn, so the server knows what differs.
import {refresh} from './graph.js';

const EVERY_MS = 4000; // also when nobody said that something happened
const AT_ONCE_MS = 12; // of one go: what many steps need is spread over frames
const BARELY = 1.01; // a whole that has grown by less leaves the bars of what has ended where they are
const LEAST_WIDTH = 0.6; // per cent, as on the server

const section = document.getElementById('run-workflow');
const body = section?.querySelector('tbody');
let have = section?.dataset.have ?? '';
let length = Number(section?.dataset.length);
let placedFor = length; // the length that all bars were last placed for
let isFinal = 'final' in (section?.dataset ?? {});
let underWay = false;
let again = false;

const pause = () => new Promise((done) => { setTimeout(done); });

function place(bar, whole) {
  const first = Number(bar.dataset.first);
  const last = bar.dataset.last === undefined ? whole : Number(bar.dataset.last);
  const x = Math.min(Math.max(first / whole * 100, 0), 100 - LEAST_WIDTH);
  bar.setAttribute('x', `${x.toFixed(2)}%`);
  bar.setAttribute('width', `${Math.min(Math.max((last - first) / whole * 100, LEAST_WIDTH), 100 - x).toFixed(2)}%`);
}

// The whole has become longer, so every bar is shorter on it.
async function placeBars() {
  const all = length > placedFor * BARELY || length < placedFor;
  if (all) placedFor = length;
  let until = performance.now() + AT_ONCE_MS;
  for (const bar of body.querySelectorAll(all ? '[data-first]' : '[data-first]:not([data-last])')) {
    place(bar, length);
    if (performance.now() < until) continue;
    await pause();
    until = performance.now() + AT_ONCE_MS;
  }
}

function swap(row, node, graph) {
  const {index} = row.dataset;
  const old = document.getElementById(row.id);
  Idiomorph.morph(old, row);
  htmx.process(old);
  const drawn = document.getElementById(node.id);
  if (drawn?.tagName === node.tagName) Idiomorph.morph(drawn, node);
  else drawn?.replaceWith(node);
  if (!('ended' in row.dataset)) return;
  for (const line of graph.querySelectorAll(`.g-line[data-link^="${index} "]`)) line.classList.add('done');
}

async function apply(text) {
  const parts = document.createElement('template');
  parts.innerHTML = text;
  const told = parts.content.querySelector('[data-have]');
  if (!told) return;
  const graph = section.querySelector('[data-graph]');
  const rows = [...told.querySelectorAll('tr')];
  const nodes = [...told.querySelectorAll('.g-node')];
  section.querySelector('[data-ended]').textContent = told.querySelector('[data-ended]').textContent;
  let until = performance.now() + AT_ONCE_MS;
  for (const [n, row] of rows.entries()) {
    swap(row, nodes[n], graph);
    if (performance.now() < until) continue;
    await pause();
    until = performance.now() + AT_ONCE_MS;
  }
  have = told.dataset.have;
  length = Number(told.dataset.length);
  isFinal = 'final' in told.dataset;
  if (rows.length) refresh(graph);
  await placeBars();
}

async function ask() {
  if (underWay) {
    again = true;
    return;
  }
  underWay = true;
  try {
    const answer = await fetch(`/runs/${section.dataset.workflowRun}/steps`, {
      headers: {'HX-Request': 'true', 'X-Block': 'changes', 'X-Automatic': 'yes', 'X-Have': have},
    });
    if (answer.ok) await apply(await answer.text());
  } catch {
    // The admin does not answer: the live state of the page says so.
  }
  underWay = false;
  if (again) {
    again = false;
    ask();
  }
}

if (section) {
  document.body.addEventListener('live:runs', ask);
  setInterval(() => {
    const isPaused = document.querySelector('[data-live-state]')?.dataset.state === 'paused';
    if (!document.hidden && !isPaused && !isFinal) ask();
  }, EVERY_MS);
}
