// Live parts fetch themselves again when the server says that something changed.
import {format} from './times.js';

const button = document.querySelector('[data-live-state]');
export const TOPICS = ['runs', 'jobs', 'nodes', 'stats', 'alarms'];
const BETWEEN_MS = 1000;
const CALM_MS = 4000; // for parts that cost more, or that nobody waits for: live:jobs-calm
const AGAIN_MS = 3000;

let source = null;
let paused = false;
let beatMs = 0; // how often at least the stream says something; 0: it has not said yet
let aliveAt = 0; // when it did last, by a clock that nobody sets
let newsAt = 0; // the same, as people read it
const waiting = new Map();

const show = (state) => { if (button) button.dataset.state = state; };

// At most one event in a while for each name, and never a lost last one (htmx's own throttle would
// lose it).
function fire(name, between = BETWEEN_MS) {
  if (waiting.has(name)) return waiting.set(name, true);
  waiting.set(name, false);
  document.body.dispatchEvent(new CustomEvent(`live:${name}`));
  setTimeout(() => {
    const again = waiting.get(name);
    waiting.delete(name);
    if (again) fire(name, between);
  }, between);
}

// Also after what this page did itself: its answer names topics.
for (const topic of TOPICS) {
  document.body.addEventListener(`live:${topic}`, () => fire(`${topic}-calm`, CALM_MS));
}

// Not by `hx-headers`: what is within a live part would send them too.
document.body.addEventListener('htmx:configRequest', ({detail}) => {
  const {block, same} = detail.elt.dataset;
  const by = detail.triggeringEvent?.type ?? '';
  if (block || by.startsWith('live:')) detail.headers['X-Automatic'] = 'yes';
  if (!block) return;
  detail.headers['X-Block'] = block;
  if (same) detail.headers['X-Same'] = same;
});

// Of this page, as the server made it: what changed since then it must fetch.
const age = () => Math.round(performance.now());

// A refused stream may mean that the session ended. The page stays, with what was typed into it.
async function askWhy() {
  const headers = {'HX-Request': 'true', 'X-Block': 'state', 'X-Automatic': 'yes'};
  const answer = await fetch('/system/state', {headers}).catch(() => null);
  if (answer?.status === 401 && !paused) show('out');
}

const catchUp = () => TOPICS.forEach((topic) => fire(topic));

// Nothing came for two and a half beats: what the page shows is as old as the last news.
function showStale(at) {
  if (button?.dataset.state === 'out') return;
  for (const time of button?.querySelectorAll('[data-live-since]') ?? []) {
    time.dateTime = new Date(at).toISOString();
    time.textContent = format(at, 'time');
  }
  if (button) button.dataset.lost = 'yes';
  show('stale');
}

function hear(message) {
  if (message.stale) return showStale(message.stale);
  if (message === 'on') {
    if (button?.dataset.lost) catchUp(); // what happened while the stream was lost
    delete button?.dataset.lost;
    show('on');
  } else if (message === 'off') {
    if (button?.dataset.state === 'on') button.dataset.lost = 'yes';
    if (!['out', 'stale'].includes(button?.dataset.state)) show('off');
  } else if (message === 'refused') {
    if (!document.hidden) askWhy();
  } else if (!document.hidden) {
    fire(message);
  }
}

function openDirectly() {
  const stream = new EventSource(`/events?age=${age()}`);
  const alive = () => {
    aliveAt = performance.now();
    newsAt = Date.now();
  };
  stream.addEventListener('hello', (event) => {
    beatMs = Number(event.data);
    alive();
    hear('on');
  });
  stream.addEventListener('beat', alive);
  stream.onerror = () => {
    hear('off');
    if (stream.readyState !== EventSource.CLOSED || source !== stream) return;
    source = null; // it does not come back by itself after a refusal
    hear('refused');
    setTimeout(open, AGAIN_MS);
  };
  for (const topic of TOPICS) {
    stream.addEventListener(topic, () => {
      alive();
      hear(topic);
    });
  }
  return stream;
}

// A connection to an admin that hangs, or that a cable was pulled from, ends by no event.
function watch() {
  if (!beatMs || performance.now() - aliveAt < 2.5 * beatMs) return;
  showStale(newsAt);
  aliveAt = performance.now(); // before the next attempt is given up
  if (!source) return; // it was refused, and is opened again soon
  source.close();
  source = openDirectly();
}
setInterval(watch, 500);

// One stream for all tabs: HTTP/1.1 allows six connections to a server.
function openShared() {
  const worker = new SharedWorker(document.body.dataset.worker, {name: 'tickwheel-live'});
  worker.port.onmessage = (event) => hear(event.data);
  worker.port.postMessage({age: age()});
  return {close() { worker.port.postMessage('bye'); worker.port.close(); }};
}

function open() {
  if (source || paused || !('live' in document.body.dataset)) return;
  if (window.SharedWorker) source = openShared();
  else if (!document.hidden) source = openDirectly();
}

function close() {
  source?.close();
  source = null;
  beatMs = 0;
}

export function togglePause() {
  paused = !paused;
  close();
  show(paused ? 'paused' : 'off');
  if (!paused) {
    open();
    catchUp();
  }
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    if (!window.SharedWorker) close();
  } else {
    open();
    if (!paused && source) catchUp();
  }
});
addEventListener('pagehide', close);
addEventListener('pageshow', open);
button?.addEventListener('click', () => {
  if (button.dataset.state === 'out') location.reload(); // leads to the login, and back here
  else togglePause();
});
open();

// A morph takes away what the server did not send; what somebody opened stays open.
const {callbacks} = Idiomorph.defaults;
callbacks.beforeAttributeUpdated = (name, element, change) =>
  !(name === 'open' && change === 'remove' && element.tagName === 'DETAILS');
// A part that says which thing it shows stays as it is while it shows the same one.
callbacks.beforeNodeMorphed = (old, {dataset}) => !(dataset?.same && old.dataset?.same === dataset.same);
