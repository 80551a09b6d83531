// Toasts, tooltips, dialogs, and small help for forms.
import {TOPICS} from './live.js';
import {format, words} from './times.js';

const $ = (selector, root = document) => root.querySelector(selector);

// --- toasts: from the server by HX-Trigger {"toast": {text, href, link}}, or from here ---

export function toast({text, href, link, bad = false}) {
  const box = document.createElement('div');
  box.className = bad ? 'toast bad' : 'toast';
  box.append(text);
  if (href) {
    const anchor = document.createElement('a');
    anchor.href = href;
    anchor.textContent = link;
    box.append(anchor);
  }
  $('#toasts').append(box);
  setTimeout(() => box.remove(), 6000);
}

document.body.addEventListener('toast', (event) => toast(event.detail));
if ($('#toasts').dataset.flash) toast({text: $('#toasts').dataset.flash});
const told = (status, text) => (text && text.length < 400 && !text.includes('<') ? text : `${words.failed} (${status})`);
document.body.addEventListener('htmx:responseError', (event) => {
  const {xhr, elt} = event.detail;
  const text = told(xhr.status, xhr.responseText);
  if (!isOfDialog(elt)) toast({text, bad: true});
  else if (xhr.getResponseHeader('X-Over')) closeOver(text);
  else tellInDialog(text);
});
document.body.addEventListener('htmx:sendError', ({detail}) => {
  if (isOfDialog(detail.elt)) tellInDialog(words.unreachable);
  // What a page fetches by itself says so by the live dot.
  else if (!detail.requestConfig?.headers['X-Automatic']) toast({text: words.unreachable, bad: true});
});

// A refusal in plain words is told so, and never put where a form was: that would be lost.
document.body.addEventListener('htmx:beforeSwap', ({detail}) => {
  const {xhr} = detail;
  if (xhr.status < 400 || xhr.getResponseHeader('Content-Type')?.startsWith('text/html')) return;
  detail.shouldSwap = false;
  detail.isError = true;
});

// --- dialogs: any link with data-dialog; without script it is a page of its own ---

const modal = $('#modal');
let opened = ''; // the address of what is in the dialog

// An error stands where it was caused: a toast would lie behind the backdrop.
const isOfDialog = (element) => Boolean(modal?.open && element?.closest?.('#modal'));
function tellInDialog(text) {
  const note = $('#modal-problem', modal) ?? document.createElement('p');
  note.id = 'modal-problem';
  note.className = 'notice bad';
  note.setAttribute('role', 'alert');
  note.textContent = text;
  const form = $('form', modal);
  form.insertBefore(note, $('footer', form));
  note.scrollIntoView({block: 'nearest'});
}
document.body.addEventListener('htmx:beforeRequest', ({detail}) => {
  if (isOfDialog(detail.elt)) $('#modal-problem', modal)?.remove();
});

// What the dialog is about has ended or is gone: it closes, says why, and the page shows it.
function closeOver(text) {
  modal.close();
  toast({text, bad: true});
  for (const topic of TOPICS) {
    document.body.dispatchEvent(new CustomEvent(`live:${topic}`));
  }
}

// Asked when something changed, and not more often than every two seconds. Dialogs about many things
// have no id in their address: they count what is left when they act.
const ASK_MS = 2000;
let askedAt = 0;
let asksLater = 0;
async function askWhetherOver() {
  const address = opened;
  const form = $('form', modal);
  if (!modal.open || busy.has(form) || !/\/\d+\//.test(address)) return;
  if (asksLater) return;
  const wait = askedAt + ASK_MS - performance.now();
  if (askedAt && wait > 0) {
    asksLater = setTimeout(() => { asksLater = 0; askWhetherOver(); }, wait);
    return;
  }
  askedAt = performance.now();
  const headers = {'HX-Request': 'true', 'X-Block': 'dialog', 'X-Automatic': 'yes', 'X-Asks-Over': 'yes'};
  const answer = await fetch(address, {headers}).catch(() => null);
  if (!answer?.headers.has('X-Over') || !modal.open || opened !== address || busy.has(form)) return;
  closeOver(told(answer.status, await answer.text()));
}
for (const topic of TOPICS) document.body.addEventListener(`live:${topic}`, () => { if (modal?.open) askWhetherOver(); });

async function openDialog(address) {
  await htmx.ajax('GET', address, {
    target: '#modal-body',
    swap: 'innerHTML',
    headers: {'X-Block': 'dialog'},
  });
  if (!$('#modal-body form')) return;
  opened = address;
  modal.showModal();
  const field = $('textarea, input:not([type=hidden]):not([type=checkbox])', modal) ?? $('footer .button:last-child', modal);
  field?.focus();
}
document.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-dialog]');
  if (!modal || !link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openDialog(link.getAttribute('href'));
});
document.addEventListener('open-dialog', (event) => openDialog(event.detail));
modal?.addEventListener('click', (event) => {
  if (event.target === modal || event.target.closest('[data-close]')) {
    event.preventDefault();
    modal.close();
  }
});
modal?.addEventListener('close', () => {
  clearTimeout(asksLater);
  asksLater = 0;
  $('#modal-body').replaceChildren();
});
document.body.addEventListener('htmx:afterRequest', (event) => {
  const form = event.target.closest?.('form[data-closes]');
  // A refused form is swapped in, which htmx calls a success too.
  if (form && event.detail.xhr.status < 300 && modal.open) modal.close();
});
document.addEventListener('click', (event) => {
  if (event.target.closest('[data-open-shortcuts]')) $('#shortcuts').showModal();
  if (event.target.id === 'shortcuts') event.target.close();
});

// --- forms ---

// A second click on the same button is not a second request; the server's nonce is the real guard.
const busy = new WeakSet();
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!form.matches('form[data-once]') || form.hasAttribute('hx-post')) return;
  if (busy.has(form)) event.preventDefault();
  busy.add(form);
});
addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload(); // a page from the past: its forms were sent already
});
document.body.addEventListener('htmx:beforeRequest', (event) => {
  const form = event.target.closest?.('form[data-once]');
  if (!form || event.target !== form) return;
  if (busy.has(form)) event.preventDefault();
  else busy.add(form);
});
document.body.addEventListener('htmx:afterRequest', (event) => {
  const form = event.target.closest?.('form[data-once]');
  if (!form) return;
  const moving = event.detail.xhr?.getResponseHeader('HX-Redirect');
  if (!moving) busy.delete(form);
  const key = form.querySelector('[data-fresh-key]');
  if (key && event.detail.successful) {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    key.value = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  }
});

// After a refused form, go to what must be changed.
document.body.addEventListener('htmx:afterSettle', (event) => {
  if (!event.target.matches?.('#job-form, #calendar-form') && !event.target.closest?.('#modal')) return;
  const wrong = $('[aria-invalid="true"], [data-focus]', event.target);
  if (wrong) {
    wrong.closest('details')?.setAttribute('open', '');
    wrong.focus();
    wrong.scrollIntoView({block: 'center'});
  }
});

// Empty fields are left out of addresses that people copy.
document.body.addEventListener('htmx:configRequest', (event) => {
  if (!event.detail.elt.matches('form[data-short-url]')) return;
  for (const [name, value] of Object.entries(event.detail.parameters)) {
    if (value === '') delete event.detail.parameters[name];
  }
});
document.addEventListener('submit', (event) => {
  if (!event.target.matches('form[data-short-url]:not([hx-get])')) return;
  for (const field of event.target.elements) if (!field.value) field.disabled = true;
});
document.addEventListener('change', (event) => {
  if (event.target.matches('[data-submit]')) event.target.form.requestSubmit();
});
// A live part fetches itself from the address that the filter now has.
document.body.addEventListener('htmx:pushedIntoHistory', () => {
  const part = $('[data-refetch]');
  if (!part) return;
  part.setAttribute('hx-get', location.pathname + location.search);
  htmx.process(part);
});

// Who types into a field that belongs to a choice has made that choice; the Tab key alone chooses nothing.
document.addEventListener('input', (event) => {
  const choice = document.getElementById(event.target.dataset.belongsTo ?? '');
  if (!choice || choice.checked) return;
  choice.checked = true;
  choice.dispatchEvent(new Event('change', {bubbles: true}));
});

document.addEventListener('click', (event) => {
  const chip = event.target.closest('[data-fill]');
  if (!chip) return;
  const field = document.getElementById(chip.dataset.fill);
  field.value = chip.dataset.value;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  field.dispatchEvent(new Event('change', {bubbles: true}));
  field.focus();
});

// JSON is checked while typing, so that the answer need not wait for "save".
document.addEventListener('input', (event) => {
  if (!event.target.matches('[data-json]')) return;
  const state = $('[data-json-state]', event.target.closest('.field'));
  try {
    const value = JSON.parse(event.target.value.trim() || '{}');
    state.textContent = value !== null && typeof value === 'object' && !Array.isArray(value) ? '✓' : '✗ { … }';
  } catch (error) {
    state.textContent = `✗ ${error.message}`;
  }
});

// --- copying; navigator.clipboard is missing on plain-http intranet addresses ---

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement('textarea');
    field.value = text;
    (modal?.open ? modal : document.body).append(field);
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  toast({text: words.copied});
}
document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-copy], [data-copy-address]');
  if (button) copy(button.dataset.copy ?? location.href);
});

// --- tooltips: a line of text, or the numbers of a chart's column ---

const tip = $('#tip');

function row([kind, name, value]) {
  const line = document.createElement('div');
  const mark = document.createElement('i');
  mark.className = `f-${kind}`;
  const amount = document.createElement('b');
  amount.textContent = value;
  line.append(mark, name, amount);
  return line;
}

function show(element, x, y) {
  const {chart} = element.dataset;
  if (chart) {
    const {heading, at, rows} = JSON.parse(chart);
    const title = document.createElement('h4');
    title.textContent = [heading, format(at, 'short')].filter(Boolean).join(' · ');
    tip.replaceChildren(title, ...rows.map(row));
  } else {
    const {tip: text, tipAt} = element.dataset;
    tip.textContent = tipAt ? `${text} · ${format(Number(tipAt), 'time')}` : text;
  }
  tip.classList.add('on');
  const width = tip.offsetWidth;
  const height = tip.offsetHeight;
  const left = chart
    ? (x + width + 26 > innerWidth ? x - width - 16 : x + 16)
    : Math.min(innerWidth - width - 8, Math.max(8, x - width / 2));
  const above = y - height - 14;
  const top = chart ? Math.max(8, y - height / 2) : (above < 8 ? y + 18 : above);
  tip.style.transform = `translate(${left}px, ${top}px)`;
}

document.addEventListener('pointermove', (event) => {
  const element = event.composedPath()[0].closest?.('[data-tip], [data-chart]');
  if (element && event.pointerType === 'mouse') show(element, event.clientX, event.clientY);
  else tip.classList.remove('on');
});
document.addEventListener('focusin', (event) => {
  const element = event.target.closest?.('[data-chart]');
  if (!element) return tip.classList.remove('on');
  const box = element.getBoundingClientRect();
  show(element, box.x + box.width / 2, box.y + 30);
});
