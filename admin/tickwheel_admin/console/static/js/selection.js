// Selecting rows of a list, to do something with many of them. What is selected is kept here and
// painted again after every live update; the form works without this script as well.
import {isLoading} from './loading.js';

const form = document.querySelector('[data-selection]');
const count = form.querySelector('[data-count]');
const everything = form.elements.all;
const chosen = new Set();
let last = null; // where a click with shift begins

const boxes = () => [...document.querySelectorAll(`input[type=checkbox][form="${form.id}"]`)];

function paint() {
  const all = boxes();
  const present = new Set(all.map((box) => box.value));
  for (const value of chosen) if (!present.has(value)) chosen.delete(value);
  for (const box of all) {
    box.checked = everything.checked || chosen.has(box.value);
    box.disabled = everything.checked;
    box.closest('tr').classList.toggle('selected', box.checked);
  }
  const head = document.querySelector('[data-select-all]');
  if (head) {
    head.disabled = everything.checked;
    head.checked = all.length > 0 && all.every((box) => box.checked);
    head.indeterminate = !head.checked && all.some((box) => box.checked);
  }
  const shown = everything.checked || chosen.size > 0;
  form.classList.toggle('on', shown);
  count.textContent = everything.checked
    ? count.dataset.countAll
    : count.dataset.count.replace('{n}', chosen.size);
}

function choose(box, on) {
  if (on) chosen.add(box.value);
  else chosen.delete(box.value);
}

document.addEventListener('click', (event) => {
  const box = event.target.closest?.(`input[type=checkbox][form="${form.id}"]`);
  if (!box) return;
  const all = boxes();
  const from = all.findIndex((other) => other.value === last);
  const to = all.indexOf(box);
  if (event.shiftKey && from >= 0) {
    for (const other of all.slice(Math.min(from, to), Math.max(from, to) + 1)) choose(other, box.checked);
  } else {
    choose(box, box.checked);
  }
  last = box.value;
  paint();
});

document.addEventListener('change', (event) => {
  if (event.target.matches('[data-select-all]')) {
    for (const box of boxes()) choose(box, event.target.checked);
    paint();
  } else if (event.target === everything) {
    paint();
  }
});

form.addEventListener('reset', () => {
  chosen.clear();
  setTimeout(paint);
});

// The confirmation is a dialog here, and a page of its own without script.
form.addEventListener('submit', (event) => {
  if (event.submitter?.hasAttribute('formaction')) return; // a file, and no question
  event.preventDefault();
  if (isLoading()) return;
  const asked = new URLSearchParams(new FormData(form, event.submitter));
  document.dispatchEvent(new CustomEvent('open-dialog', {detail: `${form.getAttribute('action')}?${asked}`}));
});

// `x` selects the row that `j` and `k` have reached.
document.addEventListener('keydown', (event) => {
  if (event.key !== 'x' || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest?.('input:not([type=checkbox]), textarea, select, dialog')) return;
  if (!isLoading()) document.querySelector(`tr.current input[form="${form.id}"]`)?.click();
});

// Right after the swap, so that no frame shows the rows without their marks.
document.addEventListener('htmx:afterSwap', (event) => {
  // Done: what was selected has been dealt with.
  if (document.querySelector('#modal [data-bulk-done]') && event.target.closest?.('#modal')) {
    chosen.clear();
    everything.checked = false;
  }
  paint();
});
paint();
