// The editor of a workflow: its text and its graph beside each other, and each edits the other. The server draws the
// graph, finds what is wrong, and changes the text as the graph is changed; undoing is the editor's own.
import {keymap, lintGutter, setDiagnostics} from '../vendor/codemirror-6.0.2.min.js';
import {codeEditor, goToLine, modeOf} from './code-editor.js';
import {lookLike, refresh, show} from './graph.js';
import {words} from './times.js';

const TYPING_MS = 400;
const beside = matchMedia('(min-width: 1100px)'); // as in graphs.css

// A new line stands where the fields of its item stand, or below a key that has no value yet.
function breakLine(view) {
  const {state} = view;
  const {from} = state.selection.main;
  const before = state.doc.lineAt(from).text.slice(0, from - state.doc.lineAt(from).from);
  const indent = /^[ ]*(?:- )*/.exec(before)[0].length + (/:\s*$/.test(before) ? 2 : 0);
  view.dispatch(state.replaceSelection(`\n${' '.repeat(indent)}`), {scrollIntoView: true, userEvent: 'input'});
  return true;
}

function begin(area) {
  const pane = area.form.querySelector('[data-workflow-pane]');
  const part = (name) => pane.querySelector(`[data-${name}]`);
  const view = codeEditor(area, [modeOf('yaml'), keymap.of([{key: 'Enter', run: breakLine}]), lintGutter()]);
  let steps = [];
  let chosen = null; // the key of a step
  let showing = 'graph';
  let timer = 0;
  let asking = null;

  const stepOf = (key) => steps.find((step) => step.key === key);
  const text = () => view.state.doc.toString();

  // Only what differs is replaced, so the cursor and the rest of the history of edits stay.
  function setText(next) {
    const now = text();
    if (next === now) return;
    let start = 0;
    while (start < now.length && now[start] === next[start]) start += 1;
    let end = 0;
    while (end < Math.min(now.length, next.length) - start && now.at(-1 - end) === next.at(-1 - end)) end += 1;
    view.dispatch({changes: {from: start, to: now.length - end, insert: next.slice(start, next.length - end)}});
  }

  function mark(marks) {
    const {doc} = view.state;
    const found = marks.filter(({line}) => line >= 1 && line <= doc.lines).map((each) => {
      const line = doc.line(each.line);
      const from = Math.min(line.from + each.column - 1, line.to);
      return {from, to: line.to, severity: 'error', message: each.text};
    });
    view.dispatch(setDiagnostics(view.state, found));
  }

  function showRefusal(message) {
    part('refused').hidden = !message;
    part('refused').textContent = message ?? '';
  }

  function showStep() {
    const step = stepOf(chosen);
    part('step-bar').hidden = !step;
    part('step-hint').hidden = Boolean(step);
    for (const node of pane.querySelectorAll('.g-node')) {
      node.classList.toggle('chosen', Boolean(step) && node.id === `node-${step.key}`);
    }
    if (!step) return;
    part('step-key').value = step.key;
    const select = part('step-need');
    const before = select.value;
    select.replaceChildren(...steps.filter(({key}) => key !== step.key).map(({key}) => {
      const option = document.createElement('option');
      option.value = key;
      option.textContent = step.needs.includes(key) ? `✓ ${key}` : key;
      return option;
    }));
    if (steps.some(({key}) => key === before && key !== step.key)) select.value = before;
    showNeed();
  }

  function showNeed() {
    const isNeeded = stepOf(chosen)?.needs.includes(part('step-need').value);
    pane.querySelector('[data-edit="connect"]').disabled = isNeeded || steps.length < 2;
    pane.querySelector('[data-edit="disconnect"]').disabled = !isNeeded;
  }

  function draw(told) {
    part('pane-problems').innerHTML = told.problems;
    mark(told.marks);
    pane.classList.toggle('outdated', told.graph === null);
    if (told.graph === null) return; // the last one that could be drawn stays
    const box = part('pane-graph');
    const former = box.querySelector('[data-graph]');
    const place = former?.querySelector('.graph-view');
    const [left, top] = [place?.scrollLeft ?? 0, place?.scrollTop ?? 0];
    const hadFocus = former?.contains(document.activeElement);
    box.innerHTML = told.graph;
    steps = told.steps;
    const graph = box.querySelector('[data-graph]');
    if (graph) {
      lookLike(graph, former);
      refresh(graph);
      graph.querySelector('.graph-view').scrollTo(left, top);
      if (hadFocus) graph.querySelector('.g-node[tabindex="0"]')?.focus();
    }
    showStep();
  }

  async function ask(edit = {}) {
    clearTimeout(timer);
    asking?.abort();
    asking = new AbortController();
    const sent = new URLSearchParams(new FormData(area.form));
    const of = {yaml: text(), job_id: pane.dataset.job, difference: showing === 'difference' ? 'yes' : '', ...edit};
    for (const [name, value] of Object.entries(of)) sent.set(name, value);
    let told = null;
    try {
      const answer = await fetch(pane.dataset.address, {
        method: 'POST', body: sent, signal: asking.signal, headers: {'HX-Request': 'true', 'X-Block': 'draft'},
      });
      if (answer.ok) told = await answer.json();
    } catch (error) {
      if (error.name === 'AbortError') return;
    }
    if (!told) return showRefusal(words.unreachable);
    showRefusal(told.refused);
    if (edit.edit) setText(told.text);
    clearTimeout(timer); // what was just set has its answer
    draw(told);
  }

  function freeKey() {
    for (let n = steps.length + 1; ; n += 1) if (!stepOf(`step-${n}`)) return `step-${n}`;
  }

  function edit(kind) {
    const other = part('step-need').value;
    if (kind === 'add') {
      const key = freeKey();
      const after = stepOf(chosen) ? chosen : '';
      chosen = key;
      ask({edit: 'add', edit_step: key, edit_other: after}).then(() => {
        reveal();
        part('step-key').select();
      });
    } else if (kind === 'rename') {
      const name = part('step-key').value.trim();
      const former = chosen;
      if (name === former) return;
      ask({edit: 'rename', edit_step: former, edit_other: name}).then(() => {
        if (!stepOf(name)) return;
        chosen = name;
        showStep();
        reveal();
      });
    } else {
      ask({edit: kind, edit_step: chosen, edit_other: kind === 'remove' ? '' : other});
    }
  }

  // Both where it stands in the text and where in the graph.
  function reveal({focus = false} = {}) {
    const step = stepOf(chosen);
    const node = document.getElementById(`node-${chosen}`);
    if (step) goToLine(view, step.line, {focus});
    if (node) show(node.closest('[data-graph]'), node);
  }

  function choose(key) {
    chosen = key;
    showStep();
    reveal({focus: beside.matches}); // elsewhere the graph would be scrolled out of sight
  }

  area.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING_MS);
  });
  area.form.querySelector('[name="executor_id"]')?.addEventListener('change', () => ask());
  pane.addEventListener('click', (event) => {
    const node = event.target.closest('.g-node');
    const button = event.target.closest('[data-edit]');
    const tab = event.target.closest('[data-pane]');
    if (node) {
      event.preventDefault();
      choose(node.id.slice('node-'.length));
    } else if (button) {
      edit(button.dataset.edit);
    } else if (tab) {
      showing = tab.dataset.pane;
      for (const each of pane.querySelectorAll('[data-pane]')) each.setAttribute('aria-pressed', String(each === tab));
      ask();
    }
  });
  part('step-need').addEventListener('change', showNeed);
  part('step-key').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    edit('rename');
  });
  area.form.addEventListener('click', ({target}) => {
    const line = target.closest('[data-goto-line]');
    if (line) goToLine(view, Number(line.dataset.gotoLine));
  });
  pane.hidden = false;
  area.closest('.workflow-editor').classList.add('both');
  ask();
}

const beginAll = () => document.querySelectorAll('textarea[data-workflow-text]:not([hidden])').forEach(begin);
beginAll();
document.body.addEventListener('htmx:afterSettle', beginAll);
