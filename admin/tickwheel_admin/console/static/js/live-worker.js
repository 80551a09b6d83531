// One stream of events for all tabs of the console.
const TOPICS = ['runs', 'jobs', 'nodes', 'stats', 'alarms'];
const SOON_MS = 3000; // after a refusal: admins restart, or the database is away
const LATER_MS = 15000; // after ten of them: the session may have ended
const ports = new Set();
const heardAt = new Map(); // topic → when it was told last
let source = null;
let coversFrom = 0; // what changed since then has been told, or will be
let state = 'off';
let refusals = 0;
let beatMs = 0; // how often at least the stream says something; 0: it has not said yet
let aliveAt = 0; // when it did last, by a clock that nobody sets
let newsAt = 0; // the same, as people read it

const tell = (message) => { for (const port of ports) port.postMessage(message); };

function setState(next) {
  state = next;
  tell(next);
}

function alive() {
  aliveAt = performance.now();
  newsAt = Date.now();
  if (state.stale) setState('on');
}

// A connection to an admin that hangs, or that a cable was pulled from, ends by no event.
setInterval(() => {
  if (!beatMs || performance.now() - aliveAt < 2.5 * beatMs) return;
  setState({stale: newsAt});
  aliveAt = performance.now(); // before the next attempt is given up
  if (!source) return; // it was refused, and is opened again soon
  source.close();
  source = null;
  open(newsAt);
}, 500);

function hear(topic) {
  alive();
  heardAt.set(topic, Date.now());
  tell(topic);
}

function open(loadedAt) {
  if (source) return;
  let greeted = false;
  coversFrom = loadedAt;
  source = new EventSource(`/events?age=${Math.max(0, Date.now() - loadedAt)}`);
  source.addEventListener('hello', (event) => {
    refusals = 0;
    beatMs = Number(event.data);
    alive();
    setState('on');
    if (greeted) TOPICS.forEach(hear); // the stream was lost, perhaps for long
    greeted = true;
  });
  source.addEventListener('beat', alive);
  source.onerror = () => {
    if (!state.stale) setState('off');
    if (source?.readyState !== EventSource.CLOSED) return; // it comes back by itself
    source = null;
    tell('refused');
    setTimeout(() => { if (ports.size) open(loadedAt); }, refusals++ < 10 ? SOON_MS : LATER_MS);
  };
  for (const topic of TOPICS) source.addEventListener(topic, () => hear(topic));
}

function leave(port) {
  ports.delete(port);
  if (ports.size) return;
  source?.close();
  source = null;
  state = 'off';
  beatMs = 0;
}

// A page says how old it is: what was told since then, it has not heard.
function join(port, age) {
  const loadedAt = Date.now() - age;
  ports.add(port);
  if (source) {
    for (const topic of TOPICS) {
      if (loadedAt < coversFrom || (heardAt.get(topic) ?? 0) >= loadedAt) port.postMessage(topic);
    }
  } else open(loadedAt);
  port.postMessage(state);
}

onconnect = (event) => {
  const [port] = event.ports;
  port.onmessage = (message) => {
    if (message.data === 'bye') leave(port);
    else join(port, message.data.age);
  };
};
