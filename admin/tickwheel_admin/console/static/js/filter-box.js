// The filter box of a list suggests keys and their values while one types. What it holds is sent
// when it says something whole: free words after a pause, a term when its value has been chosen.
const input = document.querySelector('[data-filter-box]');
const list = document.getElementById('filter-choices');
const keys = JSON.parse(input.dataset.keys);
const ASK_AFTER_MS = 120;
const SEND_AFTER_MS = 250;

let options = []; // {text, what, insert, isWhole}
let chosen = -1;
let timer = 0;
let sending = 0;
let asked = 0; // answers to earlier questions are left aside
let sent = input.value;

input.setAttribute('role', 'combobox');
input.setAttribute('aria-autocomplete', 'list');
input.setAttribute('aria-controls', list.id);
input.setAttribute('aria-expanded', 'false');

// The term that the caret stands in: where it begins, and its text up to the caret.
function term() {
  const text = input.value.slice(0, input.selectionStart ?? input.value.length);
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    if (quoted && text[at] === '\\') at += 1;
    else if (text[at] === '"') quoted = !quoted;
    else if (!quoted && /\s/.test(text[at])) start = at + 1;
  }
  return {start, text: text.slice(start)};
}

const written = (value) => (/^[^\s"]+$/.test(value) ? value : `"${value.replace(/(["\\])/g, '\\$1')}"`);
const plain = (typed) => typed.replace(/^"/, '').replace(/"$/, '').replace(/\\(.)/g, '$1');

function option({text, what}, index) {
  const item = document.createElement('li');
  item.id = `filter-choice-${index}`;
  item.setAttribute('role', 'option');
  item.setAttribute('aria-selected', index === chosen);
  const first = document.createElement('span');
  first.textContent = text;
  item.append(first);
  if (what) {
    const second = document.createElement('small');
    second.textContent = what;
    item.append(second);
  }
  return item;
}

function show(found) {
  options = found;
  chosen = -1;
  list.replaceChildren(...options.map(option));
  list.hidden = options.length === 0;
  input.setAttribute('aria-expanded', !list.hidden);
  input.removeAttribute('aria-activedescendant');
}

// What was asked a moment ago must not open the list again.
function close() {
  asked += 1;
  clearTimeout(timer);
  show([]);
}

function move(step) {
  if (!options.length) return;
  chosen = (chosen + step + options.length) % options.length;
  [...list.children].forEach((item, index) => item.setAttribute('aria-selected', index === chosen));
  input.setAttribute('aria-activedescendant', `filter-choice-${chosen}`);
  list.children[chosen].scrollIntoView({block: 'nearest'});
}

async function valuesOf(key, typed) {
  if (key.values) {
    const part = typed.toLowerCase();
    return key.values.filter(([value, what]) => `${value} ${what}`.toLowerCase().includes(part))
      .map(([value, what]) => ({value, what}));
  }
  const response = await fetch(`/filter-values.json?${new URLSearchParams({key: key.key, text: typed})}`);
  return response.ok ? (await response.json()).map((value) => ({value})) : [];
}

async function suggest() {
  const question = asked += 1;
  const {text} = term();
  const [, name, typed] = /^([a-z_]+):(.*)$/is.exec(text) ?? [];
  const key = keys.find((each) => each.key === name?.toLowerCase());
  if (!key) {
    const fitting = keys.filter((each) => each.key.startsWith(text.toLowerCase()));
    return show(fitting.map(({key: each, what}) => ({text: `${each}:`, what, insert: `${each}:`, isWhole: false})));
  }
  const found = await valuesOf(key, plain(typed)).catch(() => []); // nothing to suggest: it is typed
  if (question !== asked || document.activeElement !== input) return undefined;
  if (!found.length && key.example && !typed) return show([{text: `${key.key}:…`, what: key.example, insert: `${key.key}:`, isWhole: false}]);
  const others = found.filter(({value}) => value !== plain(typed) || found.length > 1);
  return show(others.map(({value, what}) => ({text: value, what, insert: `${key.key}:${written(value)} `, isWhole: true})));
}

function send() {
  clearTimeout(sending);
  if (input.value.trim() === sent.trim()) return;
  sent = input.value;
  input.form.dispatchEvent(new CustomEvent('filter'));
}

function choose(index) {
  const {start} = term();
  const {insert, isWhole} = options[index];
  // The rest of the term behind the caret goes with what is replaced.
  const rest = input.value.slice(input.selectionStart).replace(/^[^\s]*\s?/, '');
  input.value = input.value.slice(0, start) + insert + rest;
  input.setSelectionRange(start + insert.length, start + insert.length);
  input.focus();
  if (!isWhole) return suggest();
  close();
  return send();
}

input.addEventListener('input', () => {
  clearTimeout(timer);
  clearTimeout(sending);
  timer = setTimeout(suggest, ASK_AFTER_MS);
  const {text} = term();
  const isTerm = keys.some((each) => text.toLowerCase().startsWith(`${each.key}:`));
  if (!isTerm) sending = setTimeout(send, SEND_AFTER_MS);
});
input.addEventListener('focus', () => { if (!input.value) suggest(); });
input.addEventListener('blur', close);
input.addEventListener('keydown', (event) => {
  if (event.isComposing) return;
  if (event.key === 'ArrowDown' && list.hidden) suggest();
  else if (event.key === 'ArrowDown') move(1);
  else if (event.key === 'ArrowUp' && !list.hidden) move(-1);
  else if (event.key === 'Enter' && chosen >= 0) choose(chosen);
  else if (event.key === 'Tab' && chosen >= 0) choose(chosen);
  else if (event.key === 'Escape' && !list.hidden) close();
  else return;
  event.preventDefault();
});
input.form.addEventListener('submit', () => {
  clearTimeout(sending);
  sent = input.value;
  close();
});
list.addEventListener('pointerdown', (event) => {
  event.preventDefault(); // the box keeps the focus
  const item = event.target.closest('li');
  if (item) choose([...list.children].indexOf(item));
});
