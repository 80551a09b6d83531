// The editor of a script, whose language is chosen beside it.
import {Compartment} from '../vendor/codemirror-6.0.2.min.js';
import {codeEditor, goToLine, modeOf} from './code-editor.js';

function edit(area) {
  const chosen = area.form.querySelector('[data-script-language]');
  const mode = new Compartment();
  const view = codeEditor(area, mode.of(modeOf(chosen.value)));
  chosen.addEventListener('change', () => view.dispatch({effects: mode.reconfigure(modeOf(chosen.value))}));
  return view;
}

function editAll() {
  return [...document.querySelectorAll('textarea[data-script-source]:not([hidden])')].map(edit);
}

// The page of a failed run leads to the line that failed.
editAll().forEach((view) => goToLine(view, Number(/^#line-(\d{1,6})$/.exec(location.hash)?.[1])));
document.body.addEventListener('htmx:afterSettle', editAll);
