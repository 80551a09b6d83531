// Live parts fetch themselves again when the server says that something changed.
const button = document.querySelector('[data-live-state]');
const TOPICS = ['runs', 'jobs', 'nodes', 'stats'];
const BETWEEN_MS = 1000;
const AGAIN_MS = 3000;

let source = null;
let paused = false;
const waiting = new Map();

const show = (state) => { if (button) button.dataset.state = state; };

// At most one event a second for each topic, and never a lost last one.
function fire(topic) {
  if (waiting.has(topic)) return waiting.set(topic, true);
  waiting.set(topic, false);
  document.body.dispatchEvent(new CustomEvent(`live:${topic}`));
  setTimeout(() => {
    const again = waiting.get(topic);
    waiting.delete(topic);
    if (again) fire(topic);
  }, BETWEEN_MS);
}

// Of this page, as the server made it: what changed since then it must fetch.
const age = () => Math.round(performance.now());

const catchUp = () => TOPICS.forEach(fire);

function hear(message) {
  if (message === 'on') {
    if (button?.dataset.lost) catchUp(); // what happened while the stream was lost
    delete button?.dataset.lost;
    show('on');
  } else if (message === 'off') {
    if (button?.dataset.state === 'on') button.dataset.lost = 'yes';
    show('off');
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
button?.addEventListener('click', togglePause);
open();

// A morph takes away what the server did not send; what somebody opened stays open.
const {callbacks} = Idiomorph.defaults;
callbacks.beforeAttributeUpdated = (name, element, change) =>
  !(name === 'open' && change === 'remove' && element.tagName === 'DETAILS');
