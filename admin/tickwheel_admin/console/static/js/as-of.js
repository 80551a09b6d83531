// The slider of the past: it tells the instant while it is moved, and shows it when it is let go.
import {format} from './times.js';

const slider = document.querySelector('[data-past-slider]');
if (slider) {
  const form = slider.form;
  const shown = form.querySelector('output');
  const field = form.querySelector('[name=time]');
  const instant = () => Number(slider.dataset.low) + slider.valueAsNumber * 60000;
  slider.hidden = false;
  slider.addEventListener('input', () => {
    shown.value = format(instant(), 'short');
  });
  slider.addEventListener('change', () => {
    const at = document.createElement('input');
    at.type = 'hidden';
    at.name = 'at';
    at.value = instant();
    field.disabled = true;
    form.append(at);
    form.requestSubmit();
  });
}
