// Live parts fetch themselves again when the server says that something changed.
const button = document.querySelector('[data-live-state]');
const TOPICS = ['runs', 'jobs', 'nodes', 'stats'];
const BETWEEN_MS = 1000;
const CALM_MS = 4000; // for parts that cost more, or that nobody waits for: live:jobs-calm
const AGAIN_MS = 3000;

let source = null;
let paused = false;
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

// Of this page, as the server made it: what changed since then it must fetch.
const age = () => Math.round(performance.now());

// A refused stream may mean that the session ended. The page stays, with what was typed into it.
async function askWhy() {
  const answer = await fetch('/system/state', {headers: {'HX-Request': 'true', 'X-Block': 'state'}}).catch(() => null);
  if (answer?.status === 401 && !paused) show('out');
}

const catchUp = () => TOPICS.forEach((topic) => fire(topic));

function hear(message) {
  if (message === 'on') {
    if (button?.dataset.lost) catchUp(); // what happened while the stream was lost
    delete button?.dataset.lost;
    show('on');
  } else if (message === 'off') {
    if (button?.dataset.state === 'on') button.dataset.lost = 'yes';
    if (button?.dataset.state !== 'out') show('off');
  } else if (message === 'refused') {
    if (!document.hidden) askWhy();
  } else if (!document.hidden) {
    fire(message);
  }
}

function openDirectly() {
  const stream = new EventSource(`/events?age=${age()}`);
  stream.addEventListener('hello', () => hear('on'));
  stream.onerror = () => {
    hear('off');
    if (stream.readyState !== EventSource.CLOSED || source !== stream) return;
    source = null; // it does not come back by itself after a refusal
    hear('refused');
    setTimeout(open, AGAIN_MS);
  };
  for (const topic of TOPICS) stream.addEventListener(topic, () => hear(topic));
  return stream;
}

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
