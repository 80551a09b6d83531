// One stream of events for all tabs of the console.
const TOPICS = ['runs', 'jobs', 'nodes', 'stats'];
const ports = new Set();
let source = null;
let state = 'off';

const tell = (message) => { for (const port of ports) port.postMessage(message); };

function setState(next) {
  state = next;
  tell(next);
}

function open() {
  if (source) return;
  source = new EventSource('/events');
  source.addEventListener('hello', () => setState('on'));
  source.onerror = () => {
    setState('off');
    if (source?.readyState !== EventSource.CLOSED) return; // it comes back by itself
    source = null;
    setTimeout(() => { if (ports.size) open(); }, 3000);
  };
  for (const topic of TOPICS) source.addEventListener(topic, () => tell(topic));
}

function leave(port) {
  ports.delete(port);
  if (ports.size) return;
  source?.close();
  source = null;
  state = 'off';
}

onconnect = (event) => {
  const [port] = event.ports;
  port.onmessage = (message) => {
    if (message.data === 'bye') return leave(port);
    ports.add(port);
    open();
    port.postMessage(state);
  };
};
