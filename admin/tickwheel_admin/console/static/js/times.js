// Instants and lengths that move: "3m ago", "12 s", and the strips of last runs.
const {language, zone, zoneChosen} = document.body.dataset;
// The browser's, unless the reader chose another one, which the server knows.
export const readerZone = (zoneChosen === undefined && Intl.DateTimeFormat().resolvedOptions().timeZone) || zone;
export const words = JSON.parse(document.body.dataset.words);
const stateNames = JSON.parse(document.body.dataset.stateNames);

const relative = new Intl.RelativeTimeFormat(language, {
  numeric: 'auto',
  style: language.startsWith('zh') ? 'short' : 'narrow',
});

// The same forms as the server's patterns of these names.
const clock = {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'};
const formats = {
  time: clock,
  minute: {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'},
  short: {month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23'},
  date: {month: language.startsWith('zh') ? 'long' : 'short', day: 'numeric'},
  full: {year: 'numeric', month: language.startsWith('zh') ? 'long' : 'short', day: 'numeric', ...clock},
  weekday: {weekday: 'short', month: 'short', day: 'numeric', ...clock},
};
const formatters = new Map();

export function format(instant, name) {
  if (!formatters.has(name)) {
    const options = {...formats[name], timeZone: readerZone};
    formatters.set(name, new Intl.DateTimeFormat(language, options));
  }
  return formatters.get(name).format(instant);
}

// As the server writes them: 1h 05m, but 1 小时 5 分.
const one = (unit, n) => words.units[unit].replace('%(n)s', n);
const two = (unit, first, second) => words.units[unit]
  .replace('%(first)s', first)
  .replace('%(second)s', language.startsWith('zh') || unit === 'dh' ? second : String(second).padStart(2, '0'));

/** A length in its two largest units. */
export function length(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60);
  if (hours >= 48) return two('dh', Math.floor(hours / 24), hours % 24);
  if (hours) return two('hm', hours, minutes % 60);
  if (minutes) return two('minutes', minutes, whole % 60);
  return one('s', whole);
}

function ago(seconds) {
  if (seconds < 45) return relative.format(-Math.max(0, Math.round(seconds)), 'second');
  if (seconds < 2700) return relative.format(-Math.round(seconds / 60), 'minute');
  if (seconds < 79200) return relative.format(-Math.round(seconds / 3600), 'hour');
  return relative.format(-Math.round(seconds / 86400), 'day');
}

const put = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

function update(root = document) {
  const now = Date.now();
  // What comes, of which some has come since the server drew it.
  for (const fire of root.querySelectorAll('circle.fire')) {
    if (Number(fire.dataset.tipAt) < now) fire.remove();
  }
  for (const element of root.querySelectorAll('time[data-ago]')) {
    put(element, ago((now - Date.parse(element.dateTime)) / 1000));
  }
  for (const element of root.querySelectorAll('time[data-until]')) {
    const seconds = (Date.parse(element.dateTime) - now) / 1000;
    put(element, seconds < 1 ? words.now : length(seconds));
  }
  for (const element of root.querySelectorAll('time[data-elapsed]')) {
    put(element, length((now - Date.parse(element.dateTime)) / 1000));
  }
}

// Only when the server did not know the browser's zone: else its text is right already.
function correctZone() {
  if (readerZone === zone) return;
  for (const element of document.querySelectorAll('time[data-at]')) {
    put(element, format(Date.parse(element.dateTime), element.dataset.at));
  }
  for (const element of document.querySelectorAll('text[data-at]')) {
    put(element, format(Number(element.dataset.ms), element.dataset.at));
  }
  for (const element of document.querySelectorAll('time[title]')) {
    element.title = format(Date.parse(element.dateTime), 'full');
  }
  for (const field of document.querySelectorAll('[data-zone-field]')) {
    if (field.value === zone) field.value = readerZone;
  }
  for (const element of document.querySelectorAll('[data-zone-name]')) put(element, readerZone);
}

const refresh = () => {
  correctZone();
  update();
};
refresh();
setInterval(update, 1000);
document.addEventListener('htmx:afterSwap', refresh); // before what was swapped in is painted
document.addEventListener('htmx:oobAfterSwap', refresh);

// <run-strip d="id,state,ms,started;…">: one attribute, so that a live update compares one text.
const stripStyle = new CSSStyleSheet();
stripStyle.replaceSync(`
  :host { display: inline-flex; align-items: flex-end; gap: 1.5px; height: 22px; }
  i { width: 4.5px; border-radius: 1.2px; background: var(--idle); cursor: pointer; }
  i:hover { opacity: 0.55; }
  .succeeded { background: var(--ok-bar); }
  .failed { background: var(--bad); }
  .timed_out { background: var(--late); }
  .lost { background: var(--warn); }
  .skipped { background: var(--skip); }
  .running, .dispatched { background: var(--run); }
`);

class RunStrip extends HTMLElement {
  static observedAttributes = ['d'];

  attributeChangedCallback() {
    const root = this.shadowRoot ?? this.attachShadow({mode: 'open'});
    root.adoptedStyleSheets = [stripStyle];
    const runs = this.getAttribute('d').split(';').map((run) => run.split(','));
    const longest = Math.max(1, ...runs.map((run) => Number(run[2])));
    root.replaceChildren(...runs.map(([id, state, ms, at]) => {
      const bar = document.createElement('i');
      bar.className = state;
      bar.style.height = `${Math.max(18, (Number(ms) / longest) * 100)}%`;
      const took = Number(ms) ? ` · ${this.#took(Number(ms))}` : '';
      bar.dataset.tip = `${stateNames[state]}${took} · ${format(Number(at), 'short')}`;
      bar.addEventListener('click', () => { location.href = `/runs/${id}`; });
      return bar;
    }));
  }

  #took(ms) {
    if (ms < 1000) return one('ms', ms);
    return ms < 60000 ? one('s', (ms / 1000).toFixed(ms < 10000 ? 1 : 0)) : length(ms / 1000);
  }
}
customElements.define('run-strip', RunStrip);
